"""Datasets of the package that this environment does not offer, with the reason for each."""

from __future__ import annotations

_EXECUTES = "its scorer executes the answer (sympy.parse_expr), and no comparison without algebra is right"
_NO_ANSWER = "it stores no solution, so that nothing shows that its scorer accepts one"

LEFT_OUT = {
    "boxnet": _NO_ANSWER,
    "codeio": "making a question executes programs that a language model wrote",
    "composite": "it is a mixture of other datasets",
    "intermediate_integration": _EXECUTES,
    "polynomial_multiplication": _EXECUTES,
    "propositional_logic": "it stores no solution, and its scorer gives credit for any formula",
    "rush_hour": _NO_ANSWER,
    "simple_integration": _EXECUTES,
}
