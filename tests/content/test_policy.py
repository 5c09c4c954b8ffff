"""The policy gradient: exact where every draw can be counted, and within its error where not."""

import pytest
import torch

from tinyattn.content import RunningMean, policy_loss, reward_to_go

from ..close import assert_same
from ..transformer.tiny import randn, seeded
from .test_predictor import a_predictor, all_draws

CASES = [(3, 3, True), (4, 4, True), (2, 1, False), (3, 2, False)]


def rewards(edges, n):
    """Each token earns a random amount for each key that it reads: (graphs, 1, n)."""
    return (edges.mask(n) * randn(n, n, seed=7)).sum(dim=-1)


def exact(n, n_edges, every_token):
    """The predictor, all draws, their probabilities, and the gradient of the expected reward."""
    predictor, given = a_predictor(every_token), all_draws(n, n_edges, every_token)
    x = randn(1, 1, n, 3).expand(len(given.queries), 1, n, 3)
    log_p = predictor(x, n_edges, given=given).log_p
    p = log_p.sum(dim=-1).exp()
    expected = (p * rewards(given, n).sum(dim=-1)).sum()
    gradient = torch.autograd.grad(expected, list(predictor.parameters()), retain_graph=True)
    return predictor, given, log_p, p.detach(), flat(gradient)


def flat(gradients):
    return torch.cat([g.flatten() for g in gradients])


def of_loss(losses, p, predictor):
    """The mean gradient of a loss over all draws, each as often as it is drawn."""
    expected = (p * losses).sum()
    return flat(torch.autograd.grad(expected, list(predictor.parameters()), retain_graph=True))


@pytest.mark.parametrize(("n", "n_edges", "every_token"), CASES)
@pytest.mark.parametrize("baseline", [0.0, 5.0])
def test_over_all_draws_it_is_the_gradient_of_the_expected_reward(
    n, n_edges, every_token, baseline
):
    predictor, given, log_p, p, gradient = exact(n, n_edges, every_token)
    reward = rewards(given, n).sum(dim=-1)
    losses = torch.stack([policy_loss(log_p[i], reward[i], baseline) for i in range(len(log_p))])[
        :, None
    ]
    assert_same(of_loss(losses, p, predictor), -gradient)


@pytest.mark.parametrize(("n", "n_edges"), [(3, 3), (4, 4), (4, 8)])
def test_rewards_that_were_settled_before_an_edge_can_be_left_out(n, n_edges):
    predictor, given, log_p, p, gradient = exact(n, n_edges, True)
    to_go = reward_to_go(rewards(given, n), n_edges // n)
    losses = torch.stack([policy_loss(log_p[i], to_go[i], 0.3) for i in range(len(log_p))])
    assert_same(of_loss(losses[:, None], p, predictor), -gradient)
    own_only = rewards(given, n).repeat_interleave(n_edges // n, dim=-1)
    losses = torch.stack([policy_loss(log_p[i], own_only[i]) for i in range(len(log_p))])
    biased = of_loss(losses[:, None], p, predictor)
    assert float((biased + gradient).norm()) > 1e-3 * float(gradient.norm())


@pytest.mark.parametrize(("n", "n_edges", "every_token"), CASES)
def test_the_mean_over_sampled_graphs_is_within_its_error(n, n_edges, every_token):
    """100 means of 200 graphs: their mean is off by one standard error, root mean square."""
    predictor, given, _, p, gradient = exact(n, n_edges, every_token)
    mean = float((p * rewards(given, n).sum(dim=-1)).sum())
    generator, found = seeded(0), {0.0: [], mean: []}
    for _ in range(100):
        drawn = predictor(randn(1, 1, n, 3).expand(200, 1, n, 3), n_edges, generator=generator)
        reward = rewards(drawn.edges, n).sum(dim=-1)
        for baseline, means in found.items():
            loss = policy_loss(drawn.log_p, reward, baseline)
            parameters = list(predictor.parameters())
            means.append(flat(torch.autograd.grad(loss, parameters, retain_graph=True)))
    for means in found.values():
        means = torch.stack(means)
        error = (means.var(dim=0).sum() / len(means)).sqrt()
        assert float((means.mean(dim=0) + gradient).norm() / error) < 1.6
        assert float(gradient.norm() / error) > 5  # so that a wrong gradient would be seen


def test_a_baseline_near_the_mean_lowers_the_noise():
    predictor, given, log_p, p, _ = exact(3, 3, True)
    reward = rewards(given, 3).sum(dim=-1) + 10
    noise = []
    for baseline in (0.0, float((p * reward).sum())):
        rows = []
        for i in range(len(log_p)):
            loss = policy_loss(log_p[i], reward[i], baseline)
            parameters = list(predictor.parameters())
            rows.append(flat(torch.autograd.grad(loss, parameters, retain_graph=True)))
        rows = torch.stack(rows)
        centre = (p * rows).sum(dim=0)
        noise.append(float((p * (rows - centre).square()).sum()))
    assert noise[1] < 0.1 * noise[0]


def test_no_gradient_flows_into_rewards_and_baselines():
    log_p = randn(3, 4).requires_grad_()
    reward, baseline = randn(3, seed=1).requires_grad_(), randn(3, seed=2).requires_grad_()
    policy_loss(log_p, reward, baseline).backward()
    assert reward.grad is None
    assert baseline.grad is None
    assert_same(log_p.grad, (-(reward - baseline) / 3).detach()[:, None].expand(3, 4))


def test_rewards_of_another_shape_are_refused():
    with pytest.raises(
        ValueError, match=r"for each graph, \(3,\), or each edge, \(3, 4\), got \(4,\)"
    ):
        policy_loss(torch.zeros(3, 4), torch.zeros(4))


def test_a_running_mean_forgets_and_knows_nothing_of_the_present():
    mean, rewards_ = RunningMean(0.8, (2,)), [3.0, 5.0, 1.0]
    assert torch.equal(mean.value, torch.zeros(2))
    for reward in rewards_:
        mean.update(torch.full((2,), reward))
    weights = [0.8**age for age in (2, 1, 0)]
    expected = sum(w * r for w, r in zip(weights, rewards_, strict=True)) / sum(weights)
    assert_same(mean.value, torch.full((2,), expected), rtol=1e-5)
    with pytest.raises(ValueError, match="decay must be from 0 to below 1, got 1"):
        RunningMean(1.0)
    last = RunningMean(0.0)
    for reward in rewards_:
        last.update(torch.tensor(reward))
    assert last.value == 1.0


def test_an_older_reward_counts_nine_tenths_of_the_next_if_nothing_else_is_said():
    mean = RunningMean()
    assert mean.value == 0
    for reward in (4.0, 2.0, 1.0):
        mean.update(torch.tensor(reward))
    expected = (0.81 * 4.0 + 0.9 * 2.0 + 1.0) / (0.81 + 0.9 + 1.0)
    assert mean.value.item() == pytest.approx(expected)


def test_a_mean_takes_numbers_and_refuses_a_batch():
    mean = RunningMean(0.5)
    mean.update(4.0)
    assert mean.value == 4
    with pytest.raises(ValueError, match=r"of shape \(\), got \(2,\); average a batch first"):
        mean.update(torch.tensor([1.0, 2.0]))
    assert mean.value == 4


@pytest.mark.parametrize("shape", [(1, 3), (2,), (2, 1), (2, 4, 5)])
def test_rewards_of_another_shape_are_refused_with_both_that_fit(shape, refusals):
    with pytest.raises(ValueError, match=r"each graph, \(2, 3\), or each edge, \(2, 3, 5\), got"):
        policy_loss(torch.zeros(2, 3, 5), torch.zeros(shape))


@pytest.mark.parametrize("shape", [(4, 1), (4, 1, 6)])
def test_a_baseline_belongs_to_its_own_reward(shape):
    """A row of baselines beside a column of rewards would give each graph those of all."""
    log_p, reward = randn(4, 1, 6), randn(*shape, seed=1)
    assert policy_loss(log_p, reward, reward) == 0.0
    assert policy_loss(log_p, reward, torch.tensor(0.5)) == policy_loss(log_p, reward, 0.5)
    with pytest.raises(ValueError, match="baseline must be one number, or one for each reward"):
        policy_loss(log_p, reward, randn(4))
