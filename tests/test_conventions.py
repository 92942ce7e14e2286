"""Structural rules: imports between folders, kernels, size of functions, public names."""

import ast
import functools
import graphlib
import re
from pathlib import Path

import precede
from precede.cli.fitting import find_algorithms
from precede.engine.kernel_cache import is_hashed
from precede.estimator.signatures import declare_parameters

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "precede"
MODULES = sorted(SOURCE.rglob("*.py"))

# The modules and folders of the package that each of them may import, besides itself.
BASE = {"engine", "judgments", "losses"}
CORE = BASE | {"risks", "weak_rankers", "model", "metrics", "boosting", "files", "results"}
MAY_IMPORT = {
    "engine": set(),
    "losses": set(),
    "judgments": {"engine"},
    "results": {"engine"},
    "risks": BASE,
    "weak_rankers": {"engine", "judgments"},
    "files": {"engine", "judgments"},
    "decomposition": {"engine", "weak_rankers"},
    "model": {"engine", "weak_rankers", "decomposition", "files", "results"},
    "metrics": {"engine", "judgments", "results"},
    "inference": {"engine", "judgments", "metrics", "results"},
    "boosting": BASE | {"risks", "weak_rankers", "model", "metrics", "files", "results"},
    "margin": CORE,
    "bounds": CORE | {"margin"},
    "plots": {"engine", "judgments", "metrics", "model", "results"},
    "top": {"engine", "judgments", "plots", "results"},
    "explain": {"engine", "judgments", "weak_rankers", "decomposition", "model", "results"},
    "estimator": CORE | {"explain", "plots"},
    "algorithms": CORE | {"margin", "estimator", "explain"},
    "datasets": {"engine", "judgments"},
    "exports": {"engine", "judgments", "weak_rankers", "decomposition", "model"},
    "scorecard": {
        "engine",
        "judgments",
        "weak_rankers",
        "decomposition",
        "model",
        "metrics",
        "explain",
        "exports",
        "results",
    },
    "testing": CORE | {"estimator", "datasets"},
    "report": CORE | {"estimator", "explain", "inference", "margin", "plots", "top"},
    "votes": {"engine", "judgments", "files"},
    "rank_sets": {"engine", "results"},
    "leaderboard": CORE
    | {"votes", "rank_sets", "inference", "explain", "plots", "report", "estimator", "algorithms"},
    "asking": {"engine", "files", "leaderboard"},
    "dask": CORE | {"estimator", "algorithms"},
    "cli": CORE
    | {"estimator", "explain", "exports", "inference", "report", "algorithms", "leaderboard"}
    | {"asking", "rank_sets"},
}
# Nothing imports these.
LEAVES = {"cli", "dask", "testing"}

# Keyword arguments of `njit`. A kernel that divides in a loop may use NumPy's error model: a check
# for zero divisors would prevent vectorization.
JIT_OPTIONS = {"cache=True, nogil=True", "**INNER", "**INLINED"}
JIT_OPTIONS |= {f"{options}, error_model='numpy'" for options in JIT_OPTIONS}

# Base classes and records, shown in the examples of the classes that use them.
NO_EXAMPLE_NEEDED = {"Columns", "Constants", "Features", "SearchResult", "Stumps", "WeakRanker"}


@functools.cache
def syntax_trees():
    """Return the syntax tree of every module of the package by its path relative to the package."""
    return {
        path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in MODULES
    }


def all_nodes(kind):
    """Yield the path of the module and the node for all nodes of a kind."""
    for path, tree in syntax_trees().items():
        for node in ast.walk(tree):
            if isinstance(node, kind):
                yield path, node


def folder_of(path):
    """Return the first folder of a relative path, or the name of a module outside of folders."""
    return path.split("/")[0].removesuffix(".py")


def module_of(path):
    return path.removesuffix(".py").replace("/", ".")


def is_kernel(function):
    return any("njit" in ast.unparse(decorator) for decorator in function.decorator_list)


def is_inner_kernel(function):
    return any("INNER" in ast.unparse(decorator) for decorator in function.decorator_list)


def kernels():
    """Yield the path of the module and the definition of every kernel."""
    return ((path, f) for path, f in all_nodes(ast.FunctionDef) if is_kernel(f))


def names_used(node):
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def public_names():
    """Return the module of every name that the stub of the package lists."""
    stub = ast.parse((SOURCE / "__init__.pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom) and node.module]
    return {alias.name: node.module for node in imports for alias in node.names}


def runtime_imports(node):
    """Yield the import statements below a node, except those for type checkers."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        else:
            yield from runtime_imports(child)


def imports_of_package(tree):
    """Yield ``(module, name)`` for every name that a module imports from this package."""
    for node in runtime_imports(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "precede":
            for alias in node.names:
                yield public_names().get(alias.name, alias.name), alias.name
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("precede."):
            for alias in node.names:
                yield node.module.removeprefix("precede."), alias.name


# -- imports --------------------------------------------------------------------------------------


def test_imports_follow_the_matrix():
    forbidden = {
        f"{path} imports {imported}"
        for path, tree in syntax_trees().items()
        if (folder := folder_of(path)) != "__init__"
        for module, _ in imports_of_package(tree)
        if (imported := module.split(".")[0]) not in MAY_IMPORT[folder] | {folder}
    }
    assert forbidden == set()


def test_the_matrix_is_complete_and_acyclic():
    assert {folder_of(path) for path in syntax_trees()} - {"__init__"} == set(MAY_IMPORT)
    graphlib.TopologicalSorter(MAY_IMPORT).prepare()  # raises CycleError
    assert not LEAVES & set().union(*MAY_IMPORT.values())


def test_no_private_name_of_another_package_is_imported():
    for path, node in all_nodes(ast.ImportFrom):
        package, *parts = (node.module or "").split(".")
        if package not in ("precede", "__future__"):
            parts += [package, *(alias.name for alias in node.names)]
            assert not any(part.startswith("_") for part in parts), (path, node.module)


def test_only_one_module_imports_matplotlib():
    users = set()
    for path, tree in syntax_trees().items():
        for node in runtime_imports(tree):
            names = [alias.name for alias in node.names]
            names.append(getattr(node, "module", None) or "")
            if any(name.split(".")[0] == "matplotlib" for name in names):
                users.add(path)
    for path, node in all_nodes(ast.Constant):  # arguments of `import_module`
        if re.fullmatch(r"matplotlib(\.\w+)*", str(node.value)):
            users.add(path)
    assert users == {"plots/drawing.py"}


# -- kernels --------------------------------------------------------------------------------------


def test_kernels_are_cached_and_release_the_lock():
    """Neither fastmath nor parallel nor signatures: CONTRIBUTING.md gives the reasons."""
    for path, function in all_nodes(ast.FunctionDef):
        for decorator in map(ast.unparse, function.decorator_list):
            if "jit" in decorator:
                options = re.fullmatch(r"njit\((.*)\)", decorator)
                assert options, (path, function.name)
                assert options[1] in JIT_OPTIONS, (path, function.name)


def test_no_jitclass_no_prange_no_fastmath_no_thread_count():
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"jitclass|set_num_threads|prange|fastmath=", text), path


def test_inner_kernels_are_called_by_kernels_only():
    """They have no entry point for Python: calling one crashes the process."""
    inner = {(module_of(path), f.name) for path, f in kernels() if is_inner_kernel(f)}
    assert inner
    in_kernels = {id(node) for _, function in kernels() for node in ast.walk(function)}
    for path, tree in syntax_trees().items():
        own = {name for module, name in inner if module == module_of(path)}
        names = own | {name for module, name in imports_of_package(tree) if (module, name) in inner}
        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
        assert not names & {node.id for node in nodes if id(node) not in in_kernels}, path


def test_kernels_use_only_names_of_files_that_the_cache_depends_on():
    """Otherwise a change there would go unnoticed, and kernels of the former version would run."""
    hashed = {module_of(path) for path in syntax_trees() if is_hashed((SOURCE / path).read_bytes())}
    hashed.add("engine.arrays")  # for annotations
    for path, function in kernels():
        imported = dict(map(reversed, imports_of_package(syntax_trees()[path])))
        used = {imported[name] for name in names_used(function) & set(imported)}
        assert used <= hashed, (path, function.name, used - hashed)
        assert imported["njit"] == "engine.compiling", path


def test_kernels_take_and_define_no_functions():
    for path, function in kernels():
        calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
        parameters = {argument.arg for argument in function.args.args}
        assert not any(isinstance(node, ast.Lambda) for node in ast.walk(function)), path
        assert not parameters & {getattr(each, "id", None) for each in calls}, (path, function.name)


# -- functions ------------------------------------------------------------------------------------


def lines_without_docstring(function):
    docstring = ast.get_docstring(function, clean=False)
    lines = function.end_lineno - function.lineno + 1
    return lines - (docstring.count("\n") + 1 if docstring else 0)


def test_functions_have_at_most_60_lines():
    long = {
        (path, function.name): lines_without_docstring(function)
        for path, function in all_nodes(ast.FunctionDef)
        if lines_without_docstring(function) > 60
    }
    assert long == {}


def test_functions_take_at_most_seven_positional_arguments():
    """Except kernels, which cannot take objects that group their arrays."""
    many = {
        (path, function.name)
        for path, function in all_nodes(ast.FunctionDef)
        if not is_kernel(function)
        and len([each for each in function.args.args if each.arg not in ("self", "cls")]) > 7
    }
    assert many == set()


def test_estimators_declare_their_parameters():
    """`BaseRanker` makes their `__init__`, which assigns the parameters and nothing else."""
    for algorithm in find_algorithms().values():
        assert algorithm.__init__.__module__ == declare_parameters.__module__


def test_no_global_random_state():
    pattern = r"np\.random\.(seed|rand|randn|randint|choice|shuffle|permutation|normal)\b"
    for path in MODULES:
        assert not re.search(pattern, path.read_text(encoding="utf-8")), path


def test_only_the_engine_calls_all_reduce():
    """Other modules call its exact reductions, which give the same bits in any order."""
    calling = {folder_of(path) for path, n in all_nodes(ast.Attribute) if n.attr == "all_reduce"}
    assert calling == {"engine"}


# -- public names and documentation ---------------------------------------------------------------


def test_public_names_are_documented_with_an_example():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for name in public_names():
        docstring = getattr(precede, name).__doc__
        assert f"`{name}`" in page, f"{name} is not on the API page"
        assert docstring, f"{name} has no docstring"
        assert ">>>" in docstring or name in NO_EXAMPLE_NEEDED, f"{name} has no example"


def test_dir_shows_public_names_only():
    shown = set(dir(precede))
    assert {"RankBoost", "Judgments", "load", "evaluate", "export", "metrics", "files"} <= shown
    assert not shown & {"engine", "annotations", "lazy_loader"}
    for name in shown:
        assert getattr(precede, name) is not None


def test_the_repository_names_no_registry_host():
    pattern = re.compile(
        r"https?://(?!www\.w3\.org)[^\s)\"'>]*(pypi|pythonhosted|npmjs|debian)", re.I
    )
    # Only the folders of the repository: others, such as .git and site, change at any time.
    folders = [ROOT / name for name in ("src", "tests", "docs", "benchmarks", "examples", ".ci")]
    for path in [*ROOT.iterdir(), *(path for folder in folders for path in folder.rglob("*"))]:
        if path.suffix in (".py", ".md", ".toml", ".cfg", ".yml", ".sh"):
            assert not pattern.search(path.read_text(encoding="utf-8", errors="ignore")), path


def test_files_named_on_the_architecture_page_exist():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    files = set(re.findall(r"\b[a-z_0-9/]+\.(?:py|cu)\b", text))  # in drawings too
    folders = set(re.findall(r"`([a-z_0-9/]+/)`", text))
    assert len(files) > 50
    assert len(folders) > 15
    missing = [n for n in files | folders if not any((f / n).exists() for f in (SOURCE, ROOT))]
    assert missing == []
