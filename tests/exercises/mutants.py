"""Small changes to a solution, one at a time: what a check must refuse."""

import ast
import copy
from collections.abc import Iterator

OTHER_OPERATOR = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.MatMult: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


def mutants(source: str) -> Iterator[tuple[str, str]]:
    """Every mutant of the source as (what was changed, source)."""
    tree = ast.parse(source)
    for number, node in enumerate(ast.walk(tree)):
        for what, change in _changes(node):
            mutant = copy.deepcopy(tree)
            target = next(n for i, n in enumerate(ast.walk(mutant)) if i == number)
            change(target)
            line = getattr(node, "lineno", 0)
            yield f"line {line}: {what}", ast.unparse(ast.fix_missing_locations(mutant))


def _changes(node: ast.AST) -> Iterator[tuple[str, object]]:
    """What can be changed at a node, each with a function that does it in place."""
    if isinstance(node, ast.BinOp) and type(node.op) in OTHER_OPERATOR:
        yield f"{type(node.op).__name__} for another", lambda n: _set(n, "op", _other(n.op))
    if isinstance(node, ast.BoolOp):
        yield f"{type(node.op).__name__} for another", lambda n: _set(n, "op", _other(n.op))
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OTHER_OPERATOR:
        name = type(node.ops[0]).__name__
        yield f"{name} for another", lambda n: _set(n, "ops", [_other(n.ops[0]), *n.ops[1:]])
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield f"{node.value} + 1", lambda n: _set(n, "value", n.value + 1)
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        yield f"not {node.value}", lambda n: _set(n, "value", not n.value)
    if isinstance(node, ast.Constant) and type(node.value) is float and node.value:
        yield f"2 * {node.value}", lambda n: _set(n, "value", 2 * n.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Invert):
        yield "no sign", lambda n: _set(n, "op", ast.UAdd()) if _is_minus(n) else _bare(n)


def _other(operator: ast.AST) -> ast.AST:
    return OTHER_OPERATOR[type(operator)]()


def _set(node: ast.AST, field: str, value: object) -> None:
    setattr(node, field, value)


def _is_minus(node: ast.UnaryOp) -> bool:
    return isinstance(node.op, ast.USub)


def _bare(node: ast.UnaryOp) -> None:
    """`~x` becomes `~~x`, which is x."""
    node.operand = ast.UnaryOp(ast.Invert(), node.operand)
