"""Time candidates of transforms on the device, after checking each: an experiment."""
import itertools, json, os, sys, time
import numpy as np, torch, pyopencl as cl
from portable_gpu.runtime.engine import Engine
from portable_gpu.ops.fft import joined, group, candidates as cand
from portable_gpu.ops.fft.catalogue import problem
from portable_gpu.ops.fft.cases import bound_of
from portable_gpu.ops.fft.policy import GroupFftPolicy
from portable_gpu.ops.candidate import ranked
from portable_gpu.tuning.costs import DeviceCosts
begin = time.time(); LIMIT = float(sys.argv[1]) - begin; print("limit", LIMIT)
engine = Engine(); q = engine.queue; dev = torch.device("cuda")
costs = DeviceCosts.of("device", engine.target)
print(engine.target.facts.name, engine.target.facts.driver_version, torch.__version__, flush=True)
OUT = open(os.environ.get("OUT", "/tmp") + "/fft.txt", "w")
def say(*a):
    print(*a, flush=True); print(*a, file=OUT, flush=True)

def best(run, sync, least=0.006):
    run(0); sync(); n = 4
    while True:
        t = time.perf_counter()
        for i in range(n): run(i)
        sync(); t = time.perf_counter() - t
        if t > least or n >= 512: break
        n *= 2
    times = [t / n]
    for _ in range(3):
        t = time.perf_counter()
        for i in range(n): run(i)
        sync(); times.append((time.perf_counter() - t) / n)
    return min(times) * 1e6

def case(kind, b, s, axis, dt, trials, copies=1):
    if time.time() - begin > LIMIT: return
    p = problem(kind, s, np.dtype(dt), b, axis)
    g = torch.Generator(device=dev).manual_seed(1)
    tdt = {4: torch.float32, 8: torch.float64}[p.real.itemsize]
    x = torch.randn(p.shape_in + (() if kind == "r2c" else (2,)), generator=g, device=dev, dtype=tdt)
    if kind != "r2c": x = torch.view_as_complex(x)
    f = torch.fft.rfftn if kind == "r2c" else torch.fft.fftn
    want = f(x.to(torch.float64) if kind == "r2c" else x.to(torch.complex128), dim=p.axes)
    host = x.cpu().numpy(); norm = torch.linalg.vector_norm(want).item()
    xs = [x.clone() for _ in range(copies)]
    peer = best(lambda i: f(xs[i % copies], dim=p.axes), torch.cuda.synchronize)
    del xs, x; torch.cuda.empty_cache()
    ins = [cl.Buffer(engine.context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=host) for _ in range(copies)]
    nb = int(np.prod(p.shape_out)) * 2 * p.real.itemsize
    outs = [cl.Buffer(engine.context, cl.mem_flags.READ_WRITE, nb) for _ in range(copies)]
    say(f"{kind} {np.dtype(dt)} {b} {s} axis {axis}: torch {peer:.1f}")
    seen = set(); checked = {}
    for label, flags, choose in trials:
        if time.time() - begin > LIMIT: break
        group._ONCE, group._IDS, joined._AHEAD = flags.get("once", 1), flags.get("ids", 1), flags.get("ahead", 32) << 10
        joined._LEAST_LINES = flags.get("lines", 2)
        old = GroupFftPolicy.__dict__["default"]
        if "policy" in flags:
            def default(cls, target, elem, n=flags["policy"]):
                import dataclasses
                return dataclasses.replace(old.__func__(cls, target, elem), **n)
            GroupFftPolicy.default = classmethod(default)
        try:
            found = [c for c in ranked(cand.candidates(p, engine.target, engine.table), costs) if choose in c.way]
            for c in found[: flags.get("most", 1)]:
                plan = c.bind(engine); state = engine.state()
                got = np.empty(p.shape_out, np.complex64 if p.real.itemsize == 4 else np.complex128)
                run = lambda i: plan.enqueue(state, [ins[i % copies], outs[i % copies]], (0, 0), (1.0,))
                sums = []
                for _ in range(2):
                    cl.enqueue_fill_buffer(q, outs[0], np.float32(np.nan), 0, nb)
                    run(0); cl.enqueue_copy(q, got, outs[0]); sums.append(hash(got.tobytes()) if nb < 3e8 else float(np.abs(got.ravel()[::97]).sum()))
                err = (torch.linalg.vector_norm(torch.from_numpy(got).to(dev).to(torch.complex128) - want) / norm).item()
                ok = err < bound_of(np.dtype(dt), p.lengths) and sums[0] == sums[1]
                t = best(run, q.finish)
                say(f"   {label:18s} {c.way:45s} {t:8.1f}  {peer / t:5.2f}  est {c.device*1e6:.0f} err {err:.1e} {'' if ok else 'WRONG'}")
                if not ok: say("   sums", sums)
        except Exception as e:
            say(f"   {label} failed: {type(e).__name__} {str(e)[:300]}")
        finally:
            GroupFftPolicy.default = old
    del ins, outs, want; torch.cuda.empty_cache(); engine.state().forget()

C, Z, F, D = np.complex64, np.complex128, np.float32, np.float64
J = "at once"
base = ("base", {}, "")
no = [("no join", {}, "")]
def plain(c): return c
B8 = {"beside": 8}
J1 = ("joined 32", {}, J)
def ahead(*n, **more): return [(f"ahead {k} {more or ''}", {"ahead": k, **more}, J) for k in n]
V = [*ahead(8, 16, 32, 64), ("tickets", {"ids": 0}, J), ("plain loads", {"once": 0}, J), *ahead(16, 32, policy=B8)]
def main():
    case("c2c", (64,), (1 << 18,), 0, C, [("two", {}, "two passes: "), *V])
    case("c2c", (), (256, 256, 256), None, C, [("one", {}, "one pass: "), *V])
    case("c2c", (), (1 << 24,), 0, C, [("three", {}, "three passes: "), *ahead(8, 16, 32, most=3), *ahead(8, 16, 32, most=3, policy=B8)])
    case("c2c", (), (4096, 4096), 0, C, [("one", {}, "one pass"), *V[:6]])
    case("c2c", (1024,), (16384,), 0, C, [("one", {}, "one pass"), *ahead(8, 16, 32)])
    case("c2c", (), (512, 512, 512), None, C, [("one", {}, "one pass: "), *ahead(16, 32, 64), *ahead(16, 32, policy=B8)])
    case("r2c", (), (512, 512, 512), None, F, [("one", {}, "one pass: "), *ahead(16, 32, 64), *ahead(16, 32, policy=B8)])
    case("c2c", (), (1 << 26,), 0, C, [("three", {}, "three passes: "), *ahead(16, 32), *ahead(16, 32, policy=B8)])
    case("c2c", (), (1 << 22,), 0, C, [("two", {}, "two passes: "), *ahead(8, 16, most=3)], 4)
    case("c2c", (), (999999,), 0, C, [("base", {}, "")], 8)
    case("c2c", (64,), (1 << 18,), 0, Z, [("two", {}, "two passes: "), *ahead(16, 32, 64)])
    case("c2c", (), (256, 256, 256), None, Z, [("one", {}, "one pass: "), *ahead(32, 64)])
    case("c2c", (), (1 << 24,), 0, Z, [("three", {}, "three passes: "), *ahead(16, 32, most=3)])
    case("r2c", (), (256, 256, 256), None, F, [("one", {}, "one pass: "), *ahead(16, 32)])
    case("r2c", (64,), (1 << 18,), 0, F, [("two", {}, "two passes: "), *ahead(8, 16, 32)])
    case("r2c", (1024,), (16384,), 0, F, [("one", {}, "one pass"), *ahead(16)])
    case("c2c", (), (4096, 4096), None, C, [J1])
    case("r2c", (), (4096, 4096), None, F, [J1])
    case("c2c", (1024,), (16384,), 0, Z, [("one", {}, "one pass"), *ahead(16, 32)])
    case("r2c", (), (256, 256, 256), None, D, [("one", {}, "one pass: "), J1])
    case("r2c", (), (512, 512, 512), None, D, [("one", {}, "one pass: "), J1])
    case("c2c", (), (1 << 20,), 0, C, [("two", {}, "two passes: "), ("joined", {"lines": 1}, "two passes at once")], 8)
    case("c2c", (16384,), (1000,), 0, C, [("base", {}, ""), ("group 256", {"policy": {"group": 256}}, "")])
main()
say("seconds", time.time() - begin)
