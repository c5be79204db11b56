"""Samples integrated over time: nothing counted twice, nothing invented, whatever the clocks do."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.core.meter import GpuMeter, Metered, Moment
from gpuledger.core.model import Gpu, GpuReading, GpuUuid, ProcessSample, Values

GPU = Gpu(0, GpuUuid("GPU-0"))
START = 1_000_000.0


def cycle(
    meter: GpuMeter,
    at: float,
    *,
    busy: tuple[tuple[float, float], ...] | None = None,
    processes: tuple[ProcessSample, ...] | None = None,
    values: dict[str, Values] | None = None,
    step: float = 0.0,
    up: bool = True,
) -> Metered:
    """A reading `at` seconds after the start, with the wall clock stepped by `step`."""
    reading = GpuReading(GPU, up=up, busy_samples=busy, process_samples=processes, values=values or {})
    return meter.read(reading, Moment(at, START + at + step))


def test_a_first_reading_only_sets_the_marks() -> None:
    metered = cycle(GpuMeter(), 0.0, busy=((START, 1.0),), processes=(ProcessSample(1, START, 1.0),))

    assert metered.busy_seconds == 0.0
    assert metered.sm_seconds == {1: 0.0}


def test_each_sample_stands_for_the_time_since_the_one_before() -> None:
    meter = GpuMeter()
    cycle(meter, 0.0, busy=((START, 1.0),))

    metered = cycle(meter, 1.0, busy=((START + 0.5, 1.0), (START + 1.0, 0.5)))

    assert metered.busy_seconds == pytest.approx(0.75)


@given(
    st.lists(st.tuples(st.floats(0.05, 1.0), st.floats(0, 1)), min_size=1, max_size=60),
    st.lists(st.integers(1, 7), min_size=1, max_size=60),
)
def test_integration_does_not_depend_on_how_the_samples_fall_into_cycles(
    samples: list[tuple[float, float]], cuts: list[int]
) -> None:
    meter, time, expected, pending, busy = GpuMeter(), 0.0, 0.0, list[tuple[float, float]](), 0.0
    cycle(meter, 0.0, busy=((START, 0.0),))
    cut = itertools.cycle(cuts)
    left = next(cut)
    for gap, ratio in samples:
        time += gap
        expected += gap * ratio
        pending.append((START + time, ratio))
        left -= 1
        if left == 0:
            busy += cycle(meter, time, busy=tuple(pending)).busy_seconds or 0.0
            pending, left = [], next(cut)
    busy += cycle(meter, time, busy=tuple(pending)).busy_seconds or 0.0

    assert busy == pytest.approx(expected, abs=1e-6)


def test_without_a_buffer_the_momentary_utilisation_is_held_for_the_cycle() -> None:
    meter = GpuMeter()
    values: dict[str, Values] = {"gpu_utilization_ratio": {(): 0.5}}
    cycle(meter, 0.0, values=values)

    assert cycle(meter, 2.0, values=values).busy_seconds == pytest.approx(1.0)


def test_a_gpu_that_tells_neither_has_unknown_busy_time() -> None:
    assert cycle(GpuMeter(), 0.0).busy_seconds is None


@pytest.mark.parametrize("step", [-3600.0, 3600.0], ids=["back", "forward"])
def test_a_step_of_the_wall_clock_books_no_time_that_did_not_pass(step: float) -> None:
    meter = GpuMeter()
    cycle(meter, 0.0, busy=((START, 1.0),), processes=(ProcessSample(1, START, 1.0),))

    at = START + 1.0 + step
    metered = cycle(meter, 1.0, busy=((at, 1.0),), processes=(ProcessSample(1, at, 1.0),), step=step)
    after = cycle(meter, 2.0, busy=((at + 1, 1.0),), processes=(ProcessSample(1, at + 1, 1.0),), step=step)

    assert 0.0 <= (metered.busy_seconds or 0.0) <= 2.0
    assert metered.sm_seconds is not None
    assert 0.0 <= metered.sm_seconds[1] <= 2.0
    assert (1.0, {1: 1.0}) == (after.busy_seconds, after.sm_seconds)


def test_a_buffer_stamped_anew_after_a_step_is_not_booked_again() -> None:
    meter = GpuMeter()
    cycle(meter, 0.0, busy=((START, 1.0),), processes=(ProcessSample(1, START, 1.0),))
    times = [START + 3600.0 - age / 5 for age in reversed(range(100))]
    busy = tuple((time, 1.0) for time in times)
    processes = tuple(ProcessSample(1, time, 1.0) for time in times)

    metered = cycle(meter, 1.0, busy=busy, processes=processes, step=3600.0)

    assert (2.0, {1: 2.0}) == (metered.busy_seconds, metered.sm_seconds)


def test_a_process_that_starts_between_cycles_is_booked_from_the_last_reading() -> None:
    meter = GpuMeter()
    cycle(meter, 0.0, processes=())

    metered = cycle(meter, 1.0, processes=(ProcessSample(9, START + 0.9, 0.5),))

    assert pytest.approx({9: 0.45}) == metered.sm_seconds


def test_a_process_without_a_new_sample_keeps_its_ratio_for_two_periods_and_is_idle_then() -> None:
    meter = GpuMeter()
    cycle(meter, 0.0, processes=(ProcessSample(1, START, 0.8),))

    assert cycle(meter, 1.9, processes=()).sm_ratio == {1: 0.8}
    assert cycle(meter, 2.1, processes=()).sm_ratio == {}


@pytest.mark.parametrize("delay", [0.0, 0.9, 2.5], ids=["fast", "slow", "slower-than-a-sample-is-held"])
def test_how_long_the_other_gpus_take_changes_nothing(delay: float) -> None:
    """Each GPU is read `delay` before the cycle is booked; its newest sample is a little older than that."""
    meter, spent = GpuMeter(), 0.0
    for number in range(11):
        read = number * (1.0 + delay)
        sample = ProcessSample(1, START + read - 0.05, 0.5)
        reading = GpuReading(GPU, up=True, process_samples=(sample,), listed_at=read, read_at=START + read)
        booked = Moment(read + delay, START + read + delay)
        metered = meter.read(reading, booked)
        assert metered.sm_seconds is not None
        assert metered.sm_ratio == {1: 0.5}
        spent += metered.sm_seconds[1]

    assert spent == pytest.approx(0.5 * 10 * (1.0 + delay))


def test_a_process_that_pauses_is_not_charged_for_the_pause() -> None:
    meter = GpuMeter()
    cycle(meter, 0.0, processes=(ProcessSample(1, START, 1.0), ProcessSample(2, START, 1.0)))
    cycle(meter, 1.0, processes=(ProcessSample(2, START + 1, 1.0),))

    back = cycle(meter, 2.0, processes=(ProcessSample(1, START + 2, 1.0), ProcessSample(2, START + 2, 1.0)))

    assert pytest.approx({1: 1.0, 2: 1.0}) == back.sm_seconds


def test_cycles_shorter_than_a_sample_period_lose_none_of_it() -> None:
    meter, spent = GpuMeter(), 0.0
    for number in range(51):
        at = number * 0.2
        sample = ProcessSample(1, START + at, 0.5)
        spent += (cycle(meter, at, processes=(sample,) if number % 5 == 0 else ()).sm_seconds or {}).get(1, 0.0)

    assert spent == pytest.approx(5.0)


def test_a_buffer_that_fails_now_and_then_is_booked_once() -> None:
    meter, busy = GpuMeter(), 0.0
    values: dict[str, Values] = {"gpu_utilization_ratio": {(): 1.0}}
    for number in range(21):
        told = tuple((START + tick, 1.0) for tick in (number - 1, number)) if number % 2 == 0 else None
        busy += cycle(meter, float(number), busy=told, values=values).busy_seconds or 0.0

    assert busy == pytest.approx(20.0, abs=1.0)


def test_a_sample_that_none_can_be_is_unknown_and_not_idle() -> None:
    metered = cycle(GpuMeter(), 0.0, processes=(ProcessSample(1, START, None),))

    assert metered.sm_ratio == {1: None}


def test_where_nvml_has_no_process_utilisation_it_is_unknown_and_not_idle() -> None:
    metered = cycle(GpuMeter(), 0.0, processes=None)

    assert (None, None) == (metered.sm_seconds, metered.sm_ratio)


def test_throttling_is_integrated_by_reason() -> None:
    meter = GpuMeter()
    values: dict[str, Values] = {"gpu_throttled": {("hw_slowdown",): 1.0, ("idle",): 0.0}}
    cycle(meter, 0.0, values=values)

    assert cycle(meter, 1.5, values=values).throttled_seconds == {"hw_slowdown": 1.5, "idle": 0.0}


def energy(joules: float) -> dict[str, Values]:
    return {"gpu_energy_joules_total": {(): joules}}


def test_energy_grows_by_the_counter_and_survives_its_reset() -> None:
    meter = GpuMeter()

    grown = [
        cycle(meter, float(n), values=energy(j)).energy_joules for n, j in enumerate((500.0, 600.0, 10.0, 40.0))
    ]

    assert grown == [None, 100.0, None, 30.0]


def test_nothing_is_integrated_over_the_time_for_which_a_gpu_was_lost() -> None:
    meter = GpuMeter()
    cycle(meter, 0.0, busy=((START, 1.0),), values=energy(1.0))
    cycle(meter, 1.0, up=False)

    back = cycle(meter, 600.0, busy=((START + 600, 1.0),), values=energy(9000.0))

    assert (0.0, None) == (back.busy_seconds, back.energy_joules)
