"""What the tests of virtual data share."""

from importlib.util import find_spec

# VirtualiZarr needs a newer Python than Frazil does.
collect_ignore_glob = [] if find_spec("virtualizarr") else ["test_*.py"]
if not (find_spec("eccodes") and find_spec("gribberish")):
    collect_ignore_glob.append("test_grib.py")

if find_spec("hdf5plugin"):
    import hdf5plugin

    # Where netCDF4 was imported first, HDF5 would find its filters, which can't write for h5py.
    hdf5plugin.register(force=True)
