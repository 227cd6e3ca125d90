"""Which cells of a notebook have to run for the student's functions to work as they do in the whole notebook.

A chapter's own cells draw, measure and train: for a reader. They earn nothing and take most of the time. What counts
is found by reading the source, not by running it: names that a cell reads, and names that it binds or changes.
"""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from nbformat import NotebookNode

# With one of these, a cell may read any name there is.
REACHES_EVERYTHING = frozenset(
    {
        *("eval", "exec", "compile", "__import__", "__main__", "__builtins__", "get_ipython"),
        *("globals", "locals", "vars", "dir", "__globals__", "f_globals", "f_locals", "f_back"),
        *("In", "Out", "_", "__", "___", "_i", "_ii", "_iii", "_ih", "_oh"),
    }
)


def needed(notebook: NotebookNode, original: NotebookNode) -> set[int]:
    """Indices of the code cells to run, of a repaired notebook whose chapter's source notebook is ``original``.

    These are all cells that the student wrote or changed, all solution cells, and those of the chapter's own that bind
    or change a name which a cell that runs reads. Test cells are not among them. If the source of one of these leaves
    open what it reads, all cells are needed.
    """
    own = {cell.source.strip() for cell in original.cells if "nbgrader" not in cell.metadata}
    code = {
        index: cell
        for index, cell in enumerate(notebook.cells)
        if cell.cell_type == "code" and not cell.metadata.get("nbgrader", {}).get("grade")
    }
    try:
        names = {index: _names(cell.source) for index, cell in code.items()}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set(code)
    modules = frozenset().union(*(used.modules for used in names.values()))
    run = {index for index, cell in code.items() if "nbgrader" in cell.metadata or cell.source.strip() not in own}
    while True:
        wanted = frozenset().union(*(names[index].read for index in run))
        more = {index for index in code.keys() - run if names[index].changed(modules) & wanted}
        if any(names[index].unclear for index in run):
            return set(code)
        if not more:
            return run
        run |= more


@dataclass(frozen=True)
class _Names:
    """The global names of a cell: read; bound, also in part; with a method called; imported as modules."""

    read: frozenset[str]
    bound: frozenset[str]
    called: frozenset[str]
    modules: frozenset[str]
    unclear: bool

    def changed(self, modules: frozenset[str]) -> frozenset[str]:
        """What is other after the cell. To call a function of a module does not change it for others."""
        return self.bound | (self.called - modules)


@lru_cache(maxsize=1000)  # the chapter's own cells come again with every notebook
def _names(source: str) -> _Names:
    tree = ast.parse(source)
    read, bound = set(), set()
    for table in _tables(symtable.symtable(source, "<cell>", "exec")):
        outermost = table.get_type() == "module"
        for symbol in table.get_symbols():
            here = outermost or symbol.is_global()
            # The body of a class looks for a name among the global ones until it is bound there.
            if symbol.is_referenced() and (here or table.get_type() == "class"):
                read.add(symbol.get_name())
            if here and (symbol.is_assigned() or symbol.is_imported()):
                bound.add(symbol.get_name())
    nodes = list(ast.walk(tree))
    stored = {_base(node) for node in nodes if isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)}
    called = {_base(node.func) for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)}
    modules = {alias.asname or alias.name.split(".")[0] for alias in _imported(nodes)}
    mentioned = read | {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    mentioned |= {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    mentioned |= {alias.name for alias in _imported(nodes)}
    starred = any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in nodes)
    unclear = starred or not REACHES_EVERYTHING.isdisjoint(mentioned)
    return _Names(*map(frozenset, (read, bound | stored, called, modules)), unclear)


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _tables(child)


def _imported(nodes: list[ast.AST]) -> Iterator[ast.alias]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from node.names


def _base(node: ast.AST) -> str:
    """The name that a chain like ``a.b[0].c()`` starts from, or ""; of an attribute or item, not of a plain name."""
    if isinstance(node, ast.Name):
        return ""
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        else:
            return ""
    return node.id
