"""Run every PyTensor graph on JAX: maximal JIT regions, explained graph breaks.

Importing the package registers the mode ``"JAXSELECTIVE"`` and the linker ``"jaxselective"``.
"""

from pytensor_jaxlink.errors import DonatedArgumentError as DonatedArgumentError
from pytensor_jaxlink.errors import JAXLinkError as JAXLinkError
from pytensor_jaxlink.errors import JAXLinkWarning as JAXLinkWarning
from pytensor_jaxlink.errors import NotJittableError as NotJittableError
from pytensor_jaxlink.errors import RecompileLimitError as RecompileLimitError
from pytensor_jaxlink.errors import UntranspilableOpError as UntranspilableOpError
from pytensor_jaxlink.link import Explanation as Explanation
from pytensor_jaxlink.link import JAXFunction as JAXFunction
from pytensor_jaxlink.link import JAXLinker as JAXLinker
from pytensor_jaxlink.link import explain as explain
from pytensor_jaxlink.link import register as _register
from pytensor_jaxlink.ops import static_inputs as static_inputs

__version__ = "0.1.0"

_register()
