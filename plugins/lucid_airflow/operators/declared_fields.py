"""An operator's fields are declared once, as annotations of its class.

    class IngestThroughputOperator(LucidOperator):
        input_uri: Any
        lake_uri: Any = None

The keyword-only constructor and `template_fields` (in the order of the declarations) derive from them.
Airflow's metaclass wraps a class' own constructor, and reads its signature for `default_args`, `partial` and
`expand`, after `__init_subclass__` has run: a constructor that is derived there counts like a written one.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar, get_origin

T = TypeVar("T")
REQUIRED = inspect.Parameter.empty
_NO_TEMPLATE = "Airflow renders no template in it"

Verbatim = Annotated[T, _NO_TEMPLATE]
"""The type of a field that is taken as the DAG file has it: no template, and no result of another task."""


def declare_fields(cls: type[Any], fixed: Mapping[str, Any]) -> None:
    """Give an operator its constructor and its `template_fields`; a base class' fields come first.

    `fixed` are arguments with which its base class is constructed whatever a DAG says.
    """
    declared = inspect.get_annotations(cls)
    templates = [name for name, annotation in declared.items() if not _is_verbatim(annotation)]
    cls.template_fields = (*cls.template_fields, *templates)
    if declared or fixed:
        cls.__init__ = _constructor(cls, list(declared), fixed)


def _is_verbatim(annotation: Any) -> bool:
    return get_origin(annotation) is Annotated and _NO_TEMPLATE in annotation.__metadata__


def _constructor(cls: type[Any], names: list[str], fixed: Mapping[str, Any]) -> Callable[..., None]:
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=vars(cls).get(name, REQUIRED))
        for name in names
    ]

    def construct(self: Any, **kwargs: Any) -> None:
        values = {each.name: kwargs.pop(each.name, each.default) for each in parameters}
        super(cls, self).__init__(**{**kwargs, **fixed})
        for name, value in values.items():
            setattr(self, name, value)

    construct.__name__, construct.__qualname__ = "__init__", f"{cls.__qualname__}.__init__"
    construct.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD),
            *parameters,
            inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
        ]
    )
    return construct
