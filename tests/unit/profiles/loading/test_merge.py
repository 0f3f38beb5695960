from hypothesis import given
from hypothesis import strategies as st

from rigproof.profiles.loading.merge import Merged, Origin, merge

TABLES = st.recursive(
    st.dictionaries(st.sampled_from("abc"), st.integers(), max_size=3),
    lambda inner: st.dictionaries(
        st.sampled_from("abc"), inner | st.integers() | st.lists(st.integers()), max_size=3
    ),
    max_leaves=8,
)


def merged(*layers: dict) -> Merged:
    return merge((f"file{number}", layer) for number, layer in enumerate(layers))


def test_tables_merge_and_other_values_replace():
    found = merged({"t": {"a": 1, "b": [1, 2]}}, {"t": {"b": [3]}, "c": 4})
    assert found.tree == {"t": {"a": 1, "b": [3]}, "c": 4}
    assert found.origins == {
        "t.a": Origin("file0", "t.a"),
        "t.b": Origin("file1", "t.b"),
        "c": Origin("file1", "c"),
    }


def test_a_value_in_place_of_a_table_and_the_other_way_round():
    assert merged({"t": {"a": 1}}, {"t": 2}).origins == {"t": Origin("file1", "t")}
    assert merged({"t": 2}, {"t": {"a": 1}}).origins == {"t.a": Origin("file1", "t.a")}


def test_nodes_merge_by_name_and_remember_where_they_are_written():
    found = merged(
        {"nodes": [{"name": "a", "cpus": 1}, {"name": "b"}]},
        {"nodes": [{"name": "b", "cpus": 2, "gpus": [{"sku": "x", "limits": {"ooms": 1}}]}]},
    )
    assert [node["name"] for node in found.tree["nodes"]] == ["a", "b"]
    assert found.origin("nodes.a.cpus") == Origin("file0", "nodes[0].cpus")
    assert found.origin("nodes.b.cpus") == Origin("file1", "nodes[0].cpus")
    assert found.origin("nodes.b.gpus.0.limits.ooms") == Origin("file1", "nodes[0].gpus[0].limits.ooms")
    assert found.origin("nothing") is None


def test_what_is_malformed_is_left_out():
    assert merged({"nodes": [1, {"cpus": 2}, {"name": 3}]}).tree == {}


def test_the_layers_below_are_not_changed():
    below = {"t": {"a": 1}, "nodes": [{"name": "n", "gpus": [{"sku": "x"}]}]}
    merged(below, {"t": {"a": 2}, "nodes": [{"name": "n", "gpus": []}]})
    assert below == {"t": {"a": 1}, "nodes": [{"name": "n", "gpus": [{"sku": "x"}]}]}


@given(TABLES)
def test_laying_the_same_table_twice_changes_nothing_but_the_file(table):
    assert merged(table, table).tree == merged(table).tree == table


@given(TABLES, TABLES)
def test_what_lies_on_top_is_what_holds(below, above):
    found = merged(below, above)
    assert merged(found.tree, above).tree == found.tree
