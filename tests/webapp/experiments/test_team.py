"""The team: read from a config, drawn, edited in the form, told by the API."""

import re
from typing import Any
from xml.etree import ElementTree

import pytest
from django.test import Client

from tests.webapp.elements import text_of, texts_of
from tests.webapp.pages.test_experiment import posted
from training_core.config.files import (
    apply_overrides,
    load_config,
    parse_config,
    parse_overrides,
    read_preset,
)
from training_core.errors import ConfigError
from webapp.accounts.models import User
from webapp.experiments.commands import launch_command
from webapp.experiments.forms import draft_from_run, draft_from_tree, draft_make
from webapp.experiments.team import picture, team_document, team_read, team_svg, team_words
from webapp.experiments.team_editing import ACTS, name_follow, role_rename, team_follow
from webapp.runs.models import Run

EDIT = "/experiments/edit/"
SVG = "{http://www.w3.org/2000/svg}"


def tree(**roles: str) -> dict[str, Any]:
    """A config tree with these roles (role="policy", or "policy frozen"); it need not be a valid one."""
    base = load_config("plan_path_duo").model_dump(mode="json")
    made = {
        name: {"policy": said.split()[0], "trained": "frozen" not in said, "prompt": ""}
        for name, said in roles.items()
    }
    base["team"] = {"roles": made, "turn_order": []}
    base["policies"] = {name: {"model": "tiny"} for name in ("one", "two")}
    return base


def test_the_turn_order_is_shown_if_the_config_omits_it() -> None:
    assert load_config("plan_path_duo").team.turn_order == ("planner", "executor")
    given = {"team.turn_order": ["executor", "planner"]}
    assert load_config("plan_path_duo", given).team.order == ("executor", "planner")


def test_a_team_in_words() -> None:
    team = team_read(tree(asker="one", judge="two frozen", answerer="one"))
    found = team_document(team)
    assert found.order == ["asker", "judge", "answerer"]
    assert [(each.role, each.speaks, each.trained) for each in found.roles] == [
        ("asker", [1], True), ("judge", [2], False), ("answerer", [3], True)
    ]  # fmt: skip
    assert [(each.policy, each.roles, each.trained) for each in found.policies] == [
        ("one", ["asker", "answerer"], True), ("two", ["judge"], False)
    ]  # fmt: skip
    assert team_words(team).startswith(
        "Turn order: asker, then judge, then answerer. asker speaks through one"
    )


def test_a_role_may_speak_twice() -> None:
    team = tree(a="one", b="two")
    team["team"]["turn_order"] = ["b", "a", "b"]
    read = team_read(team)
    assert [(member.role, member.speaks) for member in read.members] == [("b", [1, 3]), ("a", [2])]
    assert [role.under for role in picture(read)["roles"]] == ["speaks 1st, 3rd", "speaks 2nd"]
    assert len(picture(read)["turns"]) == 2  # b to a, a to b


def test_roles_that_act_at_once_share_a_step() -> None:
    team = tree(a="one", b="two", c="two")
    team["team"]["parallel"] = ["a", "b"]
    read = team_read(team)
    assert team_document(read).steps == [["a", "b"], ["c"]]
    assert [(member.role, member.speaks) for member in read.members] == [("a", [1]), ("b", [1]), ("c", [2])]
    assert team_words(read).startswith("Turn order: a and b at once, then c.")
    assert len(picture(read)["turns"]) == 2  # a to c, b to c
    team["team"]["parallel"] = "x"
    assert team_document(team_read(team)).steps == [["a"], ["b"], ["c"]]


def test_a_role_that_is_removed_acts_with_nobody_any_more() -> None:
    team = tree(a="one", b="two", c="two")
    team["team"]["parallel"] = ["a", "b"]
    assert ACTS["role-remove"](team, "b")["team"]["parallel"] == ["a"]


def test_the_picture_connects_each_role_with_its_policy() -> None:
    team = team_read(tree(asker="one", judge="two frozen", loose="nobody"))
    drawn = picture(team)
    root = ElementTree.fromstring(team_svg(team))
    groups = {kind: root.findall(f"{SVG}g[@class='{kind}']") for kind in ("role", "policy")}
    assert [group.find(f"{SVG}title").text for group in groups["role"]] == ["asker", "judge", "loose"]
    assert [group.find(f"{SVG}title").text for group in groups["policy"]] == ["one", "two"]
    edges = root.find(f"{SVG}g[@class='edges']").findall(f"{SVG}path")
    assert len(edges) == 2  # the third names no policy
    assert [bool(edge.get("stroke-dasharray")) for edge in edges] == [False, True]
    for edge, role, policy in zip(edges, drawn["roles"], drawn["policies"], strict=False):
        numbers = [float(number) for number in re.findall(r"-?[\d.]+", edge.get("d"))]
        assert (numbers[1], numbers[-1]) == (role.middle, policy.middle)
    height = float(root.get("height"))
    for boxes in (drawn["roles"], drawn["policies"]):
        tops = [box.y for box in boxes]
        assert all(0 <= top <= height - 44 for top in tops)
        assert all(later - earlier >= 44 for earlier, later in zip(tops, tops[1:], strict=False))


def test_names_in_the_picture_are_text() -> None:
    hostile = "<script>alert(1)</script>" + "x" * 50
    svg = team_svg(team_read(tree(**{hostile: "one"})))
    assert "<script" not in svg and "&lt;script&gt;" in svg
    ElementTree.fromstring(svg)


def test_a_tree_with_mistakes_is_drawn_as_far_as_it_goes() -> None:
    team = team_read(
        {"team": {"roles": {"a": {"policy": None}, "b": 3}, "turn_order": "x"}, "policies": {"p": 1}}
    )
    assert [member.role for member in team.members] == ["a"] and not team.speakers
    ElementTree.fromstring(team_svg(team))
    ElementTree.fromstring(team_svg(team_read({})))


def act(name: str, of: str, start: dict[str, Any]) -> dict[str, Any]:
    return ACTS[name](start, of)


def test_acts_of_the_editor() -> None:
    start = load_config("plan_path_duo").model_dump(mode="json")
    more = act("role-add", "critic", start)
    assert more["team"]["turn_order"] == ["planner", "executor", "critic"]
    assert more["team"]["roles"]["critic"]["policy"] == "planner"
    assert act("role-remove", "critic", more)["team"] == start["team"]
    assert act("role-up", "critic", more)["team"]["turn_order"] == ["planner", "critic", "executor"]
    assert act("role-up", "planner", more)["team"]["turn_order"] == more["team"]["turn_order"]
    assert act("role-down", "planner", start)["team"]["turn_order"] == ["executor", "planner"]
    third = act("policy-add", "third", start)
    assert third["policies"]["third"] == start["policies"]["planner"]
    shared = act("policy-remove", "executor", third)
    assert {name: role["policy"] for name, role in shared["team"]["roles"].items()} == {
        "planner": "planner", "executor": "planner"
    }  # fmt: skip
    assert start == load_config("plan_path_duo").model_dump(mode="json")  # nothing was changed in place
    assert parse_config(shared).used_policies == ("planner",)


@pytest.mark.parametrize(
    ("name", "of", "path"),
    [
        ("role-add", "", "team.roles"),
        ("role-add", "a.b", "team.roles"),
        ("role-add", "planner", "team.roles"),
        ("policy-add", "Big", "policies"),
        ("policy-add", "executor", "policies"),
    ],
)
def test_names_that_cannot_be(name: str, of: str, path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        act(name, of, load_config("plan_path_duo").model_dump(mode="json"))
    assert set(caught.value.fields) == {path}


def test_a_role_is_renamed_wherever_the_config_names_it() -> None:
    start = load_config("arithmetic").model_dump(mode="json")
    name = start["team"]["turn_order"][-1]
    start["team"]["parallel"] = [name]
    start["environment"]["proposer"] = name
    start["checkpoint"]["best_of"] = f"eval/{name}/reward"
    renamed = role_rename(start, name, "critic")
    assert renamed["team"]["roles"]["critic"] == start["team"]["roles"][name]
    assert name not in str(renamed["team"]["roles"].keys())
    order = [*start["team"]["turn_order"][:-1], "critic"]
    assert (renamed["team"]["turn_order"], renamed["team"]["parallel"]) == (order, ["critic"])
    assert renamed["environment"]["proposer"] == "critic"
    assert renamed["checkpoint"]["best_of"] == "eval/critic/reward"
    assert role_rename(renamed, "critic", name) == start, "and back"
    assert role_rename(start, name, name) == start


def test_members_of_a_renamed_role_keep_their_agents() -> None:
    start = load_config("spread_mappo").model_dump(mode="json")
    start["environment"] = {"type": "pettingzoo", "members": {"agents": ["a_"], "others": ["b_"]}}
    renamed = role_rename(start, "agents", "leader")
    assert renamed["environment"]["members"] == {"leader": ["a_"], "others": ["b_"]}
    assert list(renamed["team"]["roles"]) == ["leader"] and "turn_order" not in renamed["team"]
    start["environment"]["members"] = {}
    with pytest.raises(ConfigError, match="needs a role with the name agents"):
        role_rename(start, "agents", "leader")


@pytest.mark.parametrize(
    ("preset", "name", "new", "error"),
    [
        (
            "plan_path_duo",
            "planner",
            "leader",
            "the environment plan_path needs a role with the name planner",
        ),
        ("plan_path_duo", "nobody", "leader", "there is no role nobody"),
        ("arithmetic", "", "Not A Name", "is not a valid name"),
        ("arithmetic", "", "", "is not a valid name"),
        ("arithmetic", "", "tool", "tool already exists"),
        ("arithmetic", "tool", "calculator", "needs a role with the name tool"),
    ],
)
def test_renaming_is_refused_at_the_role(preset: str, name: str, new: str, error: str) -> None:
    start = load_config(preset).model_dump(mode="json")
    role = name or start["team"]["turn_order"][-1]
    with pytest.raises(ConfigError, match=error):
        role_rename(start, role, new)


def test_the_last_one_stays() -> None:
    alone = act("role-remove", "executor", load_config("plan_path_duo").model_dump(mode="json"))
    with pytest.raises(ConfigError, match="at least one role"):
        act("role-remove", "planner", alone)
    one = act("policy-remove", "executor", alone)
    with pytest.raises(ConfigError, match="at least one policy"):
        act("policy-remove", "planner", one)


def test_the_team_follows_the_environment() -> None:
    other = tree(planner="two frozen", critic="one")
    followed = team_follow(other)
    assert list(followed["team"]["roles"]) == ["planner", "executor"]
    assert followed["team"]["roles"]["planner"] == other["team"]["roles"]["planner"]
    assert followed["team"]["turn_order"] == ["planner", "executor"]
    assert team_follow(followed) == followed


def test_an_edited_team_is_the_same_experiment_as_a_command() -> None:
    """Fewer policies, another order: overrides that lead from the preset to the very config."""
    start = load_config("plan_path_duo").model_dump(mode="json")
    edited = act("policy-remove", "executor", act("role-down", "planner", act("policy-add", "third", start)))
    draft = draft_from_tree("plan_path_duo", edited)
    assert draft.config is not None
    command = launch_command("plan_path_duo", draft.overrides).replace("\\\n", " ")
    import shlex

    overrides = parse_overrides(shlex.split(command)[3:])
    assert load_config("plan_path_duo", overrides) == draft.config
    again = draft_from_run("plan_path_duo", draft.config.model_dump(mode="json"))
    assert again.config == draft.config and again.overrides == draft.overrides
    assert draft_make("plan_path_duo", draft.overrides).config == draft.config
    assert set(draft.config.policies) == {"planner", "third"}


def test_the_form_is_drawn_again_with_the_edited_team(ada: Client) -> None:
    form = posted(ada) | {"rollout.group_size": "4", "run.name": "kept"}
    answer = ada.post(EDIT, form | {"act": "role-add", "role_name": "critic"})
    html = answer.content.decode()
    assert 'name="structure.roles" value="planner,executor,critic"' in html
    assert 'name="team.roles.critic.policy"' in html and "critic" in texts_of(html, "title")
    assert 'name="rollout.group_size" value="4"' in html and 'name="run.name" value="kept"' in html
    assert "plan_path needs the roles planner, executor, not" in html
    assert 'id="role-name-error" data-error>' in html
    assert answer["HX-Trigger-After-Settle"] == "edited"
    swapped = ada.post(EDIT, form | {"act": "role-down:planner"})
    assert "team.turn_order" in swapped["HX-Replace-Url"] and "Ready to launch" in swapped.content.decode()
    page = ada.get(swapped["HX-Replace-Url"]).content.decode()
    assert 'name="team.turn_order" value="executor, planner"' in page
    assert 'name="rollout.group_size" value="4"' in page and 'name="run.name" value="kept"' in page


def test_mistakes_of_the_editor_stand_at_its_inputs(ada: Client) -> None:
    answer = ada.post(EDIT, posted(ada) | {"act": "role-add", "role_name": "Not A Name"})
    assert "is not a valid name" in text_of(answer, "#role-name-refused")
    form = posted(ada) | {"act": "role-rename:planner", "rename_planner": "leader"}
    assert "plan_path needs a role with the name planner" in text_of(
        ada.post(EDIT, form), "#rename-refused-planner"
    )
    answer = ada.post(EDIT, posted(ada) | {"act": "policy-add", "policy_name": "planner"})
    assert "planner already exists" in text_of(answer, "#policy-name-refused")
    assert "unknown act" in ada.post(EDIT, posted(ada) | {"act": "dance"}).content.decode()


def test_an_edited_team_is_launched(ada: Client) -> None:
    form = posted(ada) | {"structure.policies": "planner", "team.roles.executor.policy": "planner"}
    form |= {"team.turn_order": "executor, planner", "team.roles.planner.prompt": "Lead."}
    form.pop("team.roles.planner.trained")
    assert ada.post("/experiments/new/", form).status_code == 302
    run = Run.objects.get()
    assert list(run.config["policies"]) == ["planner"]
    assert run.config["team"]["turn_order"] == ["executor", "planner"]
    planner = run.config["team"]["roles"]["planner"]
    assert (planner["prompt"], planner["trained"]) == ("Lead.", False)
    page = ada.get("/experiments/new/", {"from": run.pk}).content.decode()
    assert 'name="structure.policies" value="planner"' in page
    assert 'name="team.turn_order" value="executor, planner"' in page


def test_the_api_tells_and_draws_a_team(ada: Client, run: Run, stranger: User) -> None:
    def asked(path: str = "/api/v1/team/", **body: object) -> Any:
        return ada.post(path, body, content_type="application/json")

    svg = asked("/api/v1/team/picture/", run=run.pk)
    assert svg["Content-Type"] == "image/svg+xml"
    assert ElementTree.fromstring(svg.content).tag == f"{SVG}svg"
    assert asked(run=run.pk, preset="plan_path_duo").status_code == 400
    ada.force_login(stranger)
    assert asked(run=run.pk).status_code == 404


def test_another_algorithm_starts_from_its_own_settings(ada: Client) -> None:
    form = posted(ada) | {"rollout.group_size": "4", "algorithm.type": "dapo", "act": "reshape"}
    answer = ada.post(EDIT, form, headers={"HX-Request": "true", "HX-Trigger-Name": "algorithm.type"})
    html = answer.content.decode()
    assert 'name="algorithm.clip_high" value="0.28"' in html
    assert 'name="algorithm.kl_coefficient" value="0.0"' in html
    assert 'name="rollout.group_size" value="4"' in html
    assert "troupe launch plan_path_duo \\\n  algorithm.type=dapo \\\n  rollout.group_size=4<" in html
    page = ada.get(answer["HX-Replace-Url"]).content.decode()
    assert 'name="algorithm.clip_high" value="0.28"' in page and "dapo" in texts_of(page, "option[selected]")


def test_the_team_of_another_environment_is_whole_while_a_field_is_missing(ada: Client) -> None:
    form = posted(ada) | {"environment.type": "dataset", "act": "reshape"}
    answer = ada.post(EDIT, form, headers={"HX-Request": "true", "HX-Trigger-Name": "environment.type"})
    html = answer.content.decode()
    assert 'name="structure.roles" value="solver"' in html and "team.roles.planner" not in html
    assert texts_of(html, ".wrong .mono") == ["environment.path"]


def test_a_profile_fills_devices_and_resources(ada: Client) -> None:
    page = ada.get("/experiments/new/?preset=plan_path_duo").content.decode()
    assert page.count('value="profile:') == 3
    filled = ACTS["profile"](load_config("plan_path_duo").model_dump(mode="json"), "minimal")
    assert filled["policies"]["planner"]["devices"]["rollout_gpus"] == 1.0
    assert filled["resources"]["environment_workers"] == 8
    with pytest.raises(ConfigError, match="profiles are minimal, recommended, large"):
        ACTS["profile"](filled, "huge")
    answer = ada.post(EDIT, posted(ada) | {"act": "profile:recommended"})
    assert "policies.planner.devices.rollout_workers=2" in answer.headers["HX-Replace-Url"]


@pytest.mark.parametrize(
    ("name", "environment", "expected"),
    [
        ("plan_path_duo", "sudoku", "sudoku"),
        ("sudoku", "plan_path", "plan_path_duo"),
        ("sudoku", "dataset", "dataset"),
        ("my runs", "sudoku", "my runs"),
    ],
)
def test_a_default_name_follows_the_environment(name: str, environment: str, expected: str) -> None:
    preset = read_preset("plan_path_duo")
    tree = apply_overrides(preset, {"run.name": name, "environment.type": environment})
    assert name_follow(tree, preset)["run"]["name"] == expected
