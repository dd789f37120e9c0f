"""The start-up cache: what later processes need not rewrite, trace and compile again."""

from pytensor_jaxlink.artifact.start_up.cache import entry_of as entry_of
