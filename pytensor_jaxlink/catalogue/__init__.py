"""The catalogue of errors: a code for each reason, and a page (``PJL101.md``) for each code."""

from pytensor_jaxlink.catalogue.codes import Code as Code
from pytensor_jaxlink.catalogue.codes import ObstacleKind as ObstacleKind
from pytensor_jaxlink.catalogue.codes import WithCode as WithCode
from pytensor_jaxlink.catalogue.codes import code_of as code_of
from pytensor_jaxlink.catalogue.codes import without_codes as without_codes
