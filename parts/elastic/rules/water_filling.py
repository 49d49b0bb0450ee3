"""Weighted shares of a pool: what one class has no use for goes to the others, likewise by weight."""

from collections.abc import Sequence

TOLERANCE_GPUS = 1e-3  # residual that is not worth another round
MAX_ROUNDS = 100
NO_GPUS = 1e-9  # what rounding leaves over is no share


def water_fill(weights: Sequence[float], demands: Sequence[int], gpus: int) -> tuple[float, ...]:
    """Split GPUs in proportion to weights, to no class more than it demands.

    A class gets exactly its demand, or a share that does not depend on how much more than that it demands.
    """
    if sum(demands) <= gpus:
        return tuple(map(float, demands))
    shares = [0.0] * len(weights)
    unmet = [float(demand) for demand in demands]
    wanting = [at for at, demand in enumerate(demands) if demand]
    free_gpus, open_weight = float(gpus), 1.0
    for _ in range(MAX_ROUNDS):
        more = []
        for at in wanting:
            rate, want = free_gpus * weights[at] / open_weight, unmet[at]
            if rate < want:
                shares[at] += rate
                unmet[at] = want = want - rate
                if want > NO_GPUS:
                    more.append(at)
            else:
                shares[at] += want
                unmet[at] = 0.0
        wanting = more
        free_gpus = gpus - sum(shares)
        if free_gpus <= TOLERANCE_GPUS or not wanting:
            break
        open_weight = sum([weights[at] for at in wanting])
    return tuple(
        float(demand) if want <= NO_GPUS else share
        for share, want, demand in zip(shares, unmet, demands, strict=True)
    )


class WaterFilledShares:
    """Water-filling for one pool, remembering what it has worked out."""

    KNOWN = 100_000

    def __init__(self, weights: Sequence[float], gpus: int) -> None:
        self.weights = tuple(weights)
        self.gpus = gpus
        self.most = gpus + 1  # a larger demand makes no difference
        self._slack = [weight * TOLERANCE_GPUS / min(weights) + 1e-6 for weight in weights]
        self._known: dict[tuple[int, ...], tuple[float, ...]] = {}

    def of(self, demands: Sequence[int]) -> tuple[float, ...]:
        """Return each class' share of the pool; equal demands get the same tuple."""
        most = self.most
        key = tuple([demand if demand < most else most for demand in demands])
        shares = self._known.get(key)
        if shares is None:
            if len(self._known) >= self.KNOWN:
                self._known.clear()
            shares = self._known[key] = water_fill(self.weights, key, self.gpus)
        return shares

    def stays_met(self, at: int, demands: Sequence[int], shares: Sequence[float]) -> bool:
        """Whether a class that gets its whole demand will do so as long as no demand grows.

        The level up to which classes are filled rises as demands fall, but for the residual that is not
        handed out: a class that keeps a distance of that from the level is safe.
        """
        demand, weight = demands[at], self.weights[at]
        if demand <= weight * self.gpus or sum(demands) <= self.gpus:
            return True
        level = min(
            (
                share / own
                for own, share, want in zip(self.weights, shares, demands, strict=True)
                if share != want
            ),
            default=0.0,
        )
        return demand + self._slack[at] <= weight * level
