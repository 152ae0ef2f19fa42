"""The Pong recipe: the game as the policy meets it, the expert, the network and the training run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

torch = pytest.importorskip("torch")
pytest.importorskip("ale_py")

from rich.progress import Progress  # noqa: E402

from daemon.pixels import Pixels  # noqa: E402
from daemon.simulate.pong import ACTIONS  # noqa: E402
from models.pong import distil, evaluate, examples, expert, perceive, train  # noqa: E402
from models.pong.play import UNDISTURBED, Disturbance, Episode, FrameStack, Tokens, expert_choice, policy_choice  # noqa: E402
from models.pong.policy import HISTORY, PADDING_TOKEN, POINTS, STACK, VIEW, PongPolicy, load  # noqa: E402
from models.pong.recombine import recombine  # noqa: E402

NOOP, UP, DOWN = expert.MOVES
TINY = train.Budget(frames=40, keypoint_steps=3, rounds=2, games=2, decisions=48, steps=4, final_steps=4)
NOISY = Disturbance(random_actions=0.3, sticky=0.25)


def play_expert(seed: int, decisions: int, disturbance: Disturbance = UNDISTURBED) -> tuple[Episode, list[int]]:
    episode = Episode(seed, disturbance)
    return episode, [episode.step(expert_choice(episode)) for _ in range(decisions)]


def tiny_weights(seed: int, out: Path) -> list[bytes]:
    with Progress(disable=True) as progress:
        policy = train.train(seed, TINY, out, progress)
    return [tensor.numpy().tobytes() for tensor in policy.state_dict().values()]


def test_expert_leads_after_a_minute_of_play() -> None:
    episode, _ = play_expert(31, 1800)
    own, other = episode.points
    assert own >= 3
    assert own > 2 * other


def test_equal_seeds_give_equal_games_and_other_seeds_other_games() -> None:
    first, second, other = (play_expert(seed, 300, NOISY)[1] for seed in (5, 5, 6))
    assert first == second
    assert first != other


@pytest.mark.parametrize(("landing", "move"), [(60.0, UP), (112.0 + expert.CENTRE_OFFSET, NOOP), (180.0, DOWN)])
def test_expert_goes_to_where_a_far_ball_will_land(landing: float, move: int) -> None:
    field = expert.Field(x=70.0, y=landing, vx=4.0, vy=0.0, paddle=112.0, target=112.0, approaching=True)
    assert expert.choose(expert.values(field)) == move


def test_expert_knows_that_a_move_now_or_never_saves_the_ball() -> None:
    field = expert.Field(x=180.0, y=150.0, vx=4.0, vy=0.0, paddle=128.0, target=128.0, approaching=True)
    worth = dict(zip(expert.MOVES, expert.values(field), strict=True))
    assert worth[DOWN] > worth[NOOP] > -9.1
    assert worth[DOWN] > worth[UP] + 5


@pytest.mark.parametrize("y", [44.5, 100.0, 206.5, 250.0, 400.0, -30.0, -300.0])
def test_a_folded_flight_stays_between_the_walls_and_is_symmetric_at_them(y: float) -> None:
    top, bottom = expert.WALLS
    assert top <= expert._fold(y) <= bottom
    assert expert._fold(2 * top - y) == pytest.approx(expert._fold(y))


def test_history_starts_with_padding_and_the_neutral_action() -> None:
    assert Episode(1).history().tolist() == [PADDING_TOKEN] * (HISTORY - 1) + [ACTIONS.index("NOOP")]


def test_history_holds_what_was_executed_not_what_was_chosen() -> None:
    episode = Episode(3, Disturbance(random_actions=1.0))
    executed = [episode.step(UP) for _ in range(HISTORY + 3)]
    assert set(executed) != {UP}
    assert episode.history().tolist() == executed[-HISTORY:]


def test_history_does_not_show_sticky_repeats() -> None:
    episode = Episode(3, Disturbance(sticky=0.9))
    chosen = [UP, DOWN] * HISTORY
    for action in chosen:
        episode.step(action)
    assert episode.history().tolist() == chosen[-HISTORY:]


def test_frame_stack_is_newest_first_and_repeats_the_oldest() -> None:
    stack: FrameStack[int] = FrameStack()
    stack.push(0)
    assert stack.stacked() == [0] * len(STACK)
    for frame in range(1, 10):
        stack.push(frame)
    assert stack.stacked() == [9 - offset for offset in STACK]


def test_policy_choice_is_the_argmax_of_what_it_is_shown() -> None:
    seen: list[tuple[Pixels, Tokens]] = []

    def logits(frames: Pixels, history: Tokens) -> NDArray[np.float32]:
        seen.append((frames, history))
        return np.array([action == DOWN for action in range(len(ACTIONS))], dtype=np.float32)

    episode, choose = Episode(2), policy_choice(logits)
    for _ in range(3):
        assert choose(episode) == DOWN
        episode.step(DOWN)
    frames, history = seen[-1]
    assert frames.dtype == np.uint8
    assert frames.shape == (1, len(STACK), *VIEW.shape)
    assert history.tolist() == [[PADDING_TOKEN] * 5 + [NOOP, DOWN, DOWN]]
    assert np.array_equal(frames[0, 1], seen[-2][0][0, 0])


def test_policy_takes_bytes_and_tokens_and_gives_one_logit_per_action() -> None:
    frames = torch.zeros(1, len(STACK), *VIEW.shape, dtype=torch.uint8)
    logits = PongPolicy().eval()(frames, torch.full((1, HISTORY), PADDING_TOKEN))
    assert logits.shape == (1, len(ACTIONS))
    assert logits.dtype == torch.float32


def test_shipped_eyes_find_ball_and_paddle() -> None:
    views, labels = perceive.record(60, range(400, 420), np.random.default_rng(0), lambda _: None)
    error = perceive.error(load().keypoints, views, labels)
    assert set(error) == set(POINTS)
    assert max(error.values()) < 1.0


def test_shipped_policy_plays_nearly_as_the_expert_judges_best() -> None:
    choose, episode = policy_choice(evaluate.eager_logits()), Episode(77)
    given_away = []
    for _ in range(600):
        worth, action = expert.values(episode.field()), choose(episode)
        assert action in expert.MOVES
        given_away.append(worth.max() - worth[expert.MOVES.index(action)])
        episode.step(action)
    assert np.mean(given_away) < 0.05


def test_loss_weighs_a_lost_ball_above_a_matter_of_taste() -> None:
    wrong = torch.zeros(2, len(ACTIONS))
    wrong[:, NOOP] = 3.0
    taste, lost = torch.tensor([[0.0, 0.01, 0.0]]), torch.tensor([[-9.0, 0.0, -9.0]])
    both, only_taste, only_lost = (
        float(distil.distillation_loss(wrong[: len(worth)], worth)) for worth in (torch.cat([taste, lost]), taste, lost)
    )
    assert only_lost - both < 0.1 * (only_lost - only_taste)
    assert distil.regret(wrong, torch.cat([taste, lost])) == pytest.approx(4.505)


def test_recombined_decisions_are_a_ball_with_another_paddle_judged_anew() -> None:
    near = [expert.Field(150.0 + i, 100.0, 4.0, 0.0, 90.0 + i, 95.0 + i, approaching=True) for i in range(20)]
    far = expert.Field(60.0, 100.0, 4.0, 0.0, 90.0, 95.0, approaching=True)
    number = torch.arange(21.0)
    points = number[:, None, None, None].expand(21, len(STACK), len(POINTS), 3)
    history = number[:, None].expand(21, HISTORY).long()
    mixed, mixed_history, worth, fields = recombine(points, history, [*near, far], 3, np.random.default_rng(0))
    assert len(fields) == 60
    for shown, tokens, value, field in zip(mixed, mixed_history, worth, fields, strict=True):
        ball, paddle = int(field.x - 150), int(field.paddle - 90)
        assert abs(ball - paddle) <= 1
        assert bool((shown[:, POINTS.index("ball")] == ball).all())
        assert bool((shown[:, POINTS.index("paddle")] == paddle).all())
        assert tokens.tolist() == [paddle] * HISTORY
        assert field.target == 95 + paddle
        assert np.allclose(value, expert.values(field), atol=1e-6)


def test_without_a_near_ball_there_is_nothing_to_recombine() -> None:
    far = expert.Field(60.0, 100.0, 4.0, 0.0, 90.0, 95.0, approaching=True)
    points, history = torch.zeros(1, len(STACK), len(POINTS), 3), torch.zeros(1, HISTORY, dtype=torch.int64)
    assert [len(part) for part in recombine(points, history, [far], 3, np.random.default_rng(0))] == [0, 0, 0, 0]


def test_blanking_keeps_the_newest_tokens() -> None:
    torch.manual_seed(0)
    history = torch.arange(HISTORY).clamp(max=5).repeat(2000, 1)
    blanked = distil.blank(history)
    padded = (blanked == PADDING_TOKEN).sum(1)
    assert 0 < int((padded > 0).sum()) < 400
    for row, count in zip(blanked, padded.tolist(), strict=True):
        assert row.tolist() == [PADDING_TOKEN] * count + history[0, count:].tolist()


def test_equal_training_seeds_give_equal_weights(tmp_path: Path) -> None:
    first, again, other = (tiny_weights(seed, tmp_path / name) for seed, name in ((3, "a"), (3, "b"), (4, "c")))
    assert first == again
    assert first != other
    assert len((tmp_path / "a" / "train.jsonl").read_text().splitlines()) == 1 + TINY.rounds
    loaded = load(tmp_path / "a" / "weights.pt")
    assert [tensor.numpy().tobytes() for tensor in loaded.state_dict().values()] == first


def test_training_never_plays_held_out_games(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(evaluate.HELD_OUT_SEEDS).isdisjoint(train.TRAINING_SEEDS)
    assert examples.FIRST_SEED in evaluate.HELD_OUT_SEEDS
    with pytest.raises(SystemExit):
        evaluate.parse(["--seed", str(train.TRAINING_SEEDS.start - 5), "--games", "6"])
    assert "must stay within" in capsys.readouterr().err


def test_evaluation_compares_both_players_on_the_same_games() -> None:
    results = [evaluate.Result("a", seed, points, 10) for seed, points in enumerate([(21, 1), (3, 21)])]
    summary = evaluate.summarise(results)
    assert (summary.mean, summary.wins, summary.scores) == (1.0, 1, [20, -18])
    assert summary.error == pytest.approx(19.0)


def test_examples_are_real_observations_from_the_first_decision_on() -> None:
    frames, history = zip(*examples.observe(examples.FIRST_SEED, NOISY, 3), strict=True)
    assert history[0].tolist() == [PADDING_TOKEN] * (HISTORY - 1) + [NOOP]
    assert PADDING_TOKEN not in history[1]
    assert not np.array_equal(frames[0], frames[2])
    recorded = np.load(examples.EXAMPLES)
    assert recorded["frames"].shape == (examples.COUNT, len(STACK), *VIEW.shape)
    assert recorded["frames"].dtype == np.uint8
    assert recorded["history"].shape == (examples.COUNT, HISTORY)
    assert recorded["history"].dtype == np.int64
