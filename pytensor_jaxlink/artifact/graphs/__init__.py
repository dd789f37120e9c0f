"""PyTensor graphs as JSON, and back."""

from pytensor_jaxlink.artifact.graphs.properties import InnerGraph as InnerGraph
from pytensor_jaxlink.artifact.graphs.properties import build_part as build_part
from pytensor_jaxlink.artifact.graphs.properties import properties_of as properties_of
from pytensor_jaxlink.artifact.graphs.reader import GraphReader as GraphReader
from pytensor_jaxlink.artifact.graphs.reader import check_same as check_same
from pytensor_jaxlink.artifact.graphs.writer import GraphWriter as GraphWriter
from pytensor_jaxlink.artifact.names import Names as Names
