"""Arrays that stay on the device, queues, and events.

A call with device arrays only enqueues; its result carries the event that ends it.
"""

import numpy as np
import pyopencl as cl

import portable_gpu as pg

engine = pg.default_engine()
print(engine, "because:", engine.reason)

x = np.random.default_rng(0).standard_normal((1000, 300), dtype=np.float32)
on_device = pg.asarray(x, engine=engine)  # pyopencl's own arrays work as well

# One after another on one queue: nothing waits, and nothing is copied to the host.
gram = pg.gemm(on_device, on_device, trans_a="T")
largest = pg.max(gram, axis=1)
print("largest of each row:", pg.asnumpy(largest)[:4])  # waits

# Operators and indices are NumPy's, on the device.  A reduction of a whole array has no axes.
unit = gram[0] / pg.nrm2(gram[0])
print("length:", float(pg.nrm2(unit)))
np.testing.assert_allclose(pg.asnumpy(unit @ unit), 1, rtol=1e-5)

# PoCL and Intel's runtime keep arrays in the host's memory: DLPack shares it without a copy.
if engine.target.facts.type == "cpu":
    np.testing.assert_array_equal(np.from_dlpack(unit), pg.asnumpy(unit))

# Views of device arrays are read in place.
every_other = pg.sum(on_device[::2, 1:], axis=0)
np.testing.assert_allclose(every_other.get(), x[::2, 1:].sum(axis=0), rtol=1e-4, atol=1e-4)

# Another queue of the same context; wait_for orders it after the first.
side = cl.CommandQueue(engine.context, engine.device)
total = pg.sum(gram, queue=side, wait_for=gram.events)
print("sum:", total.get(queue=side))
np.testing.assert_allclose(total.get(queue=side), (x.T @ x).sum(), rtol=1e-3)

# NumPy in, NumPy out, done when it returns.
print("norm:", pg.nrm2(x))
