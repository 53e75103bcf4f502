"""Reads with TensorBoard's own reader what SummaryWriter.WritesRunsForOthers wrote into a folder."""

import io
import math
import pathlib
import sys

import numpy
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event

folder = pathlib.Path(sys.argv[1]) / "run"
(path,) = folder.iterdir()
assert path.name.startswith("events.out.tfevents.") and path.name.endswith(".test"), path

events = [Event.FromString(record) for record in RawEventFileLoader(str(path)).Load()]
assert events[0].file_version == "brain.Event:2", events[0]

run = EventAccumulator(str(folder), size_guidance={"scalars": 0, "images": 0, "histograms": 0, "tensors": 0})
run.Reload()

losses = run.Scalars("loss/train")
assert len(losses) == 101
for step, event in enumerate(losses[:100]):
    assert (event.step, event.wall_time) == (step, 1000 + step), event
    assert event.value == numpy.float32(1 / (1 + step)), event
assert math.isnan(losses[100].value)
(large,) = run.Scalars("große Zahl")
assert large.step == -1 and large.value == math.inf

accuracy = run.Scalars("train_accuracy")
assert [(event.step, event.wall_time, event.value) for event in accuracy] == [(10, 2002.5, 0.5), (20, 2005, 0.75)]
assert "seconds" not in run.Tags()["scalars"]

(weights,) = run.Histograms("weights")
values = numpy.array([0, 1, 1, 2, 2, 2, 4], float)
counts, limits = numpy.histogram(values, bins=4)
histogram = weights.histogram_value
assert weights.step == 7
assert (histogram.min, histogram.max, histogram.num) == (0, 4, 7)
assert (histogram.sum, histogram.sum_squares) == (values.sum(), (values**2).sum())
numpy.testing.assert_allclose(histogram.bucket_limit, limits)
numpy.testing.assert_array_equal(histogram.bucket, [0, *counts])
(same,) = run.Histograms("same")
counts, limits = numpy.histogram(numpy.full(5, 3.0), bins=64)
numpy.testing.assert_allclose(same.histogram_value.bucket_limit, limits)
assert sum(same.histogram_value.bucket) == 5

(note,) = run.Tensors("notes")
assert note.step == 3 and note.tensor_proto.string_val[0].decode() == "**bold** and ü"
assert run.SummaryMetadata("notes").plugin_data.plugin_name == "text"


def pixels(tag):
    (image,) = run.Images(tag)
    decoded = Image.open(io.BytesIO(image.encoded_image_string))
    assert (image.width, image.height) == decoded.size == (12, 8)
    return image.step, numpy.asarray(decoded)


y, x = numpy.mgrid[:8, :12]
step, checkers = pixels("checkers")
assert step == 5
numpy.testing.assert_array_equal(checkers[..., 0], (x + y) % 2 * 255)
numpy.testing.assert_array_equal(checkers[..., 1], numpy.round(x / 11 * 255))
step, grey = pixels("grey")
assert step == 6
numpy.testing.assert_array_equal(grey, (x + y) % 2 * 255)
