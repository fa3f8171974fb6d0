"""A donor's inner state on its way to a newcomer, and donors that die on the way."""

from __future__ import annotations

import queue

import pytest

torch = pytest.importorskip("torch", reason="waits for torch: trainers are made of it")

from methods import H, model  # noqa: E402
from thread_exchange import Alone  # noqa: E402

from holdfast import View, ft  # noqa: E402
from holdfast.errors import ConfigError, PeerLost  # noqa: E402
from holdfast.ft.outer.donor import TAG, Donor  # noqa: E402

VIEW = View(3, (0, 1, 4), (1, 4))


class Post:
    """Two ranks of a group, and the messages from one to the other."""

    def __init__(self, rank: int, box: queue.SimpleQueue, lost_after: int = 9) -> None:
        self.rank = rank
        self._box = box
        self._left = lost_after
        self.sent_to: list[int] = []

    def send(self, tensor, rank, tag, async_op):
        assert async_op
        self.sent_to.append(rank)
        self._box.put((tag, tensor.clone()))
        return Alone().sum(tensor)

    def recv(self, tensor, rank, tag):
        assert rank == 0
        if not self._left:
            raise PeerLost("rank 0 was lost", ranks=(0,))
        self._left -= 1
        of, sent = self._box.get(timeout=5)
        assert of == tag
        tensor.copy_(sent)


def adam(steps: int, width: int = 4) -> torch.optim.Optimizer:
    torch.manual_seed(1)
    net = torch.nn.Linear(width, width)
    inner = torch.optim.Adam(net.parameters(), 0.1 if steps else 0.2)
    for _ in range(steps):
        net(torch.randn(3, width)).sum().backward()
        inner.step()
    return inner


def given(inner: torch.optim.Optimizer) -> tuple[Post, queue.SimpleQueue]:
    box: queue.SimpleQueue = queue.SimpleQueue()
    post = Post(0, box)
    donor = Donor("donor", post, inner)
    donor.at(VIEW)
    donor.finish()
    return post, box


def test_a_newcomer_has_the_donors_moments_and_its_own_rate():
    theirs, ours = adam(3), adam(0)
    post, box = given(theirs)
    assert post.sent_to == [1, 1, 4, 4]
    Donor("donor", Post(4, box), ours).at(VIEW)
    assert ours.param_groups[0]["lr"] == 0.2
    wanted, found = theirs.state_dict()["state"], ours.state_dict()["state"]
    assert wanted.keys() == found.keys()
    for place, state in wanted.items():
        for name, value in state.items():
            assert torch.equal(found[place][name], value)


def test_of_a_donor_that_dies_a_newcomer_is_fresh_and_says_so():
    for lost_after in (0, 1):
        _, box = given(adam(3))
        ours = adam(0)
        with pytest.warns(RuntimeWarning, match="rank 0 was lost while it gave its inner state"):
            Donor("donor", Post(1, box, lost_after), ours).at(VIEW)
        assert not ours.state_dict()["state"]


def test_nobody_sends_where_nobody_asks_comes_or_was_there():
    for kind, view in (
        ("fresh", VIEW),
        ("donor", View(3, (0, 1, 4))),
        ("donor", View(3, (0, 1), (0, 1))),
    ):
        post = Post(0, queue.SimpleQueue())
        Donor(kind, post, adam(1)).at(view)
        assert not post.sent_to
    # Who is not the lowest goes on.
    Donor("donor", Post(3, queue.SimpleQueue()), adam(1)).at(View(4, (0, 3, 5), (5,)))


def test_what_is_no_such_state_is_refused():
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    inner = torch.optim.Adam(net.parameters())
    net(torch.ones(1, 2)).sum().backward()
    inner.step()
    _, box = given(inner)
    with pytest.raises(ConfigError, match="more parameters than this member's"):
        Donor("donor", Post(1, box), adam(0)).at(VIEW)
    with pytest.raises(ConfigError, match="inner_state = 'mine'; accepted: 'fresh' or 'donor'"):
        ft.DiLoCo(model(), adam(0), Alone(), inner_steps=H, inner_state="mine")


@pytest.mark.parametrize("length", [0, -1, 1 << 40])
def test_a_state_that_no_inner_optimiser_has_is_not_waited_for(length: int) -> None:
    box: queue.SimpleQueue = queue.SimpleQueue()
    Post(0, box).send(torch.tensor([length]), 1, TAG, async_op=True)
    with pytest.raises(ConfigError, match=f"tells of a state of {length} bytes; accepted: up to"):
        Donor("donor", Post(1, box), adam(0)).at(VIEW)
