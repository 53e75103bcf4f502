"""Writes the files of this folder, with NumPy 2.4 and Pillow 12 (pip install numpy pillow)."""

import pathlib
import zipfile

import numpy
from PIL import Image

folder = pathlib.Path(__file__).parent
numbers = numpy.arange(6).reshape(2, 3)
for code in "b1 u1 i4 i8 f2 f4 f8".split():
    numpy.save(folder / f"{code}.npy", (numbers % 2 if code == "b1" else numbers).astype(code))
numpy.save(folder / "fortran.npy", numpy.asfortranarray(numpy.arange(24.0, dtype="f4").reshape(2, 3, 4)))
numpy.save(folder / "scalar.npy", numpy.float64(2.5))
numpy.save(folder / "empty.npy", numpy.zeros((2, 0), "f4"))
numpy.save(folder / "big_endian.npy", numbers.astype(">f4"))
numpy.save(folder / "int16.npy", numbers.astype("i2"))
numpy.savez(folder / "stored.npz", weights=numbers.astype("f4"), labels=numbers[0])
numpy.savez(
    folder / "mixed.npz",
    names=numpy.array(["ant", "bee"]),
    weights=numpy.array([1.5], "f4"),
    records=numpy.zeros(1, [("a", "f4"), ("b]", "i4")]),
    objects=numpy.array([{}], dtype=object),
)
with zipfile.ZipFile(folder / "mixed.npz", "a") as archive:
    archive.writestr("README.txt", "what this is")
    archive.writestr("folder/", "")
numpy.savez(folder / "int16.npz", weights=numbers.astype("f4"), small=numbers.astype("i2"))
numpy.savez_compressed(folder / "compressed.npz", weights=numbers.astype("f4"))

# Channel c of pixel (y, x) is 40 y + 20 x + 7 c.
pixels = 40 * numpy.arange(4)[:, None, None] + 20 * numpy.arange(3)[None, :, None] + 7 * numpy.arange(4)
pixels = pixels.astype("u1")
for mode, channels in (("L", 1), ("LA", 2), ("RGB", 3), ("RGBA", 4)):
    Image.fromarray(pixels[:, :, :channels].squeeze(), mode).save(folder / f"{mode}.png")
palette = Image.fromarray((numpy.arange(12).reshape(4, 3) % 4).astype("u1"), "P")
palette.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120])
palette.save(folder / "palette.png")
Image.fromarray((pixels[:, :, 0].astype("u2") * 256 + 255)).save(folder / "sixteen_bits.png")
Image.fromarray(pixels[:, :, 0] > 60).save(folder / "one_bit.png")

smooth = numpy.broadcast_to(numpy.array([200, 100, 50], "u1"), (9, 17, 3))
Image.fromarray(smooth).save(folder / "colour.jpg", quality=95)
Image.fromarray(smooth).save(folder / "progressive.jpg", quality=95, progressive=True)
Image.fromarray(smooth[:, :, 0]).save(folder / "grey.jpg", quality=95)
Image.fromarray(smooth).convert("CMYK").save(folder / "cmyk.jpg")
