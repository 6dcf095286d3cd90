# tools/gdb/verge.py -- fibers for gdb, in a live process and in a core file.
#
#     (gdb) source tools/gdb/verge.py          # installed: share/verge/gdb/verge.py
#     (gdb) verge fibers
#     (gdb) verge bt 4294967297                # an id or a name, as `verge fibers` shows them
#     (gdb) verge bt sleeper full              # what follows goes to gdb's own bt
#
# It only reads: no function of the program is called and no register is written, so a core file
# will do.  It needs the debug information of the library (g++ or clang++, -g).  A core that gdb
# itself makes (gcore) lacks stacks with guards of MADV_GUARD_INSTALL: gdb leaves out what follows
# the first page that it cannot read.  One that the kernel writes has them all.
#
# How fibers are found: every scheduler core is in a list (scheduler_core::first_core); a core
# has the pool of its fibers' records, and a record has the saved stack pointer and the wait reason.
# How a backtrace is made: an unwinder says that the caller of the innermost frame of the selected
# thread is where the fiber went to sleep, and gdb's own bt does the rest.
#
# Standard containers are read by their layout in libstdc++, as clang++ leaves their description out
# where a program only uses them.

import re

import gdb
from gdb.unwinder import Unwinder, register_unwinder

DETAIL = "verge::fibers::detail::"

# A bit of a wait: park_cell.hpp.  Bits of `end_`: fiber_life.hpp.
PARKED = 1
FINISHED = 2


class VergeError(gdb.GdbError):
    """Something to tell the user, without a traceback."""

    def __init__(self, text):
        super().__init__("verge: " + text)


# ---- memory and types ----------------------------------------------------------------------------


def read(address, size):
    try:
        return gdb.selected_inferior().read_memory(address, size).tobytes()
    except gdb.MemoryError:
        raise VergeError(f"cannot read {size} bytes at {address:#x}: not in this core file?")


def integer(data, offset=0, size=8):
    return int.from_bytes(data[offset : offset + size], "little")


def word(address):
    return integer(read(address, 8))


class language:
    """Names are looked up as C++, whatever frame is selected."""

    def __enter__(self):
        self.before = gdb.parameter("language")
        gdb.execute("set language c++", to_string=True)

    def __exit__(self, *_):
        gdb.execute(f"set language {self.before}", to_string=True)


def type_named(name):
    with language():
        try:
            found = gdb.lookup_type(name).strip_typedefs()
        except gdb.error:
            found = None
    if found is None or (found.code == gdb.TYPE_CODE_STRUCT and not found.fields()):
        raise VergeError(
            f"no debug information for {name}: is verge::fibers linked in, and built with -g?"
        )
    return found


def field_of(kind, name):
    """(bit offset, field) of a member, also of a base or of an anonymous union."""
    for field in kind.strip_typedefs().fields():
        if not hasattr(field, "bitpos"):
            continue  # static
        if field.name == name and not field.is_base_class:
            return field.bitpos, field
        if field.is_base_class or not field.name:
            inner = field_of(field.type, name)
            if inner is not None:
                return field.bitpos + inner[0], inner[1]
    return None


class Place:
    """Where a member is in an object: Place(type, "a", "b") is that of .a.b."""

    def __init__(self, kind, *path):
        self.bit = 0
        self.type = kind
        for name in path:
            found = field_of(self.type, name)
            if found is None:
                raise VergeError(f"{self.type} has no {name}: is this script of another version?")
            self.bit += found[0]
            self.type = found[1].type
            self.bits = found[1].bitsize
        self.offset = self.bit // 8
        self.size = self.type.strip_typedefs().sizeof

    def of(self, data):
        """Its value as a number, from the bytes of the object."""
        if self.bits:
            return integer(data, self.offset, 8) >> (self.bit % 8) & ((1 << self.bits) - 1)
        return integer(data, self.offset, min(self.size, 8))


def enumerators(name):
    return {f.enumval: f.name.rsplit("::", 1)[-1] for f in type_named(name).fields()}


def string_at(address):
    """A std::string: its characters, their number."""
    head = read(address, 16)
    length = integer(head, 8)
    return read(integer(head), length).decode(errors="replace") if length < 1 << 20 else "?"


# ---- what the program knows ----------------------------------------------------------------------


class Layout:
    """Where things are, as the debug information has it."""

    def __init__(self):
        self.core = type_named(DETAIL + "scheduler_core")
        self.worker = type_named(DETAIL + "worker")
        record = type_named(DETAIL + "fiber_record")
        self.next_core = Place(self.core, "next_core_")
        self.workers = Place(self.core, "workers")
        self.scheduler_name = Place(self.core, "options", "name")
        self.chunks = Place(self.core, "records_", "chunks_", "head_")
        chunk = self.chunks.type.target()
        self.chunk_size = chunk.sizeof
        self.chunk_next = Place(chunk, "next")
        self.chunk_slots = Place(chunk, "slots")
        self.chunk_record = Place(chunk, "record")
        self.used = Place(self.chunk_record.type.target(), "used")
        self.slot = self.chunk_slots.type.target()
        self.slot_next = Place(self.slot, "next")
        self.generation = Place(self.slot, "generation")
        self.index = Place(self.slot, "index")
        self.value = Place(self.slot, "value")
        self.cell = Place(record, "cell_")
        self.waits_for = Place(record, "waits_for")
        self.refs = Place(record, "life", "refs_")
        self.end = Place(record, "life", "end_")
        self.kind = Place(record, "kind")
        self.started = Place(record, "started")
        self.own_stack = Place(record, "own_stack")
        self.extras = Place(record, "extras_")
        self.saved_sp = Place(record, "run", "context", "sp_")
        self.record_size = record.sizeof
        self.name = Place(type_named(DETAIL + "fiber_extras"), "name_")
        self.current = Place(self.worker, "current_")
        self.handle = Place(self.worker, "handle")
        self.thread = Place(self.worker, "thread")
        self.stack_low = Place(type_named(DETAIL + "stack"), "low")
        self.stack_top = Place(type_named(DETAIL + "stack"), "top")
        self.kinds = enumerators("verge::fibers::stack_kind")
        self.reasons = enumerators("verge::wait_kind")
        self.thread_states = enumerators(DETAIL + "worker::thread_state_of")


class Fiber:
    def __init__(self, layout, slot, runs_on):
        self.id = layout.generation.of(slot) << 32 | layout.index.of(slot)
        record = slot[layout.value.offset :]
        extras = layout.extras.of(record)
        self.name = string_at(extras + layout.name.offset) if extras else ""
        self.kind = layout.kinds.get(layout.kind.of(record), "?")
        self.started = bool(layout.started.of(record))
        self.saved_sp = layout.saved_sp.of(record) if self.started else 0
        self.worker = runs_on  # (name, pthread_t) or None
        self.stack = ()
        stack = layout.own_stack.of(record)
        if self.started and stack:
            self.stack = (
                word(stack + layout.stack_low.offset),
                word(stack + layout.stack_top.offset),
            )
        reason = layout.reasons.get(layout.waits_for.of(record), "?")
        waits = integer(record, layout.cell.offset) & PARKED != 0
        if not self.started:
            self.state = "waiting" if reason == "stack" else "new"
        elif runs_on and not (self.kind == "native" and waits):
            self.state = "running"
        else:
            self.state = "waiting" if waits else "ready"
        self.reason = reason if self.state == "waiting" and reason != "nothing" else "-"


class Core:
    """One scheduler."""

    def __init__(self, layout, address):
        self.layout = layout
        self.address = address
        data = read(address, layout.core.sizeof)
        self.next = layout.next_core.of(data)
        self.name = string_at(address + layout.scheduler_name.offset)
        self.chunks = layout.chunks.of(data)
        begin = integer(data, layout.workers.offset)
        end = integer(data, layout.workers.offset + 8)
        self.runs_on = {}  # address of a record: (worker's name, pthread_t)
        self.threads = 0
        for i in range((end - begin) // 8):
            worker = read(word(begin + 8 * i), layout.worker.sizeof)
            if layout.thread_states.get(layout.thread.of(worker)) != "running":
                continue
            self.threads += 1
            if layout.current.of(worker):
                self.runs_on[layout.current.of(worker)] = (
                    f"{self.name}/{i}",
                    layout.handle.of(worker),
                )

    def fibers(self):
        layout = self.layout
        size = layout.slot.sizeof
        at = self.chunks
        while at:
            chunk = read(at, layout.chunk_size)
            at = layout.chunk_next.of(chunk)
            slots = layout.chunk_slots.of(chunk)
            used = integer(
                read(layout.chunk_record.of(chunk) + layout.used.offset, layout.used.size),
                0,
                layout.used.size,
            )
            if used == 0:
                continue
            data = read(slots, used * size)
            for i in range(used):
                address = slots + i * size
                # Cheap checks first: there may be a million.
                offset = i * size
                if integer(data, offset + layout.slot_next.offset) != address:
                    continue  # free
                record = offset + layout.value.offset
                if integer(data, record + layout.refs.offset, 4) == 0:
                    continue  # kept by a worker for its next spawn
                if integer(data, record + layout.end.offset, 4) & FINISHED:
                    continue  # over; a handle still refers to it
                yield Fiber(
                    layout,
                    data[offset : offset + size],
                    self.runs_on.get(address + layout.value.offset),
                )


def cores():
    if gdb.selected_inferior().pid == 0 or gdb.selected_thread() is None:
        raise VergeError("there is no process and no core file to look at")
    layout = Layout()
    with language():
        try:
            at = int(gdb.parse_and_eval(DETAIL + "scheduler_core::first_core"))
        except gdb.error as error:
            raise VergeError(f"the list of schedulers cannot be read: {error}")
    found = []
    while at:
        core = Core(layout, at)
        found.append(core)
        at = core.next
    return found


# ---- threads -------------------------------------------------------------------------------------


def thread_of(handle):
    """gdb's thread with this pthread_t, or None."""
    threads = gdb.selected_inferior().threads()
    for thread in threads:
        try:
            if integer(thread.handle()) == handle:
                return thread
        except gdb.error:
            break  # no libthread_db for this process or core
    # On x86-64 a pthread_t is the base of the thread's %fs.
    before = gdb.selected_thread()
    try:
        for thread in threads:
            thread.switch()
            if int(gdb.parse_and_eval("(unsigned long)$fs_base")) == handle:
                return thread
    except gdb.error:
        pass
    finally:
        before.switch()
    return None


def thread_text(handle):
    thread = thread_of(handle)
    if thread is None:
        return "a thread that gdb does not know"
    return f"thread {thread.num} (LWP {thread.ptid[1] or thread.ptid[0]})"


# ---- the saved stack -----------------------------------------------------------------------------


def check_saved(pc):
    if pc == 0:
        raise VergeError(
            "the stack is not in this core file; gcore gives up at a guard page, the kernel does not"
        )


def saved_registers(sp):
    """The registers of a fiber that was left: switch_stack.hpp and switch_aarch64.cpp."""
    arch = gdb.newest_frame().architecture().name()
    if arch == "i386:x86-64":
        pc, rbx, rbp = (integer(read(sp + 8 * i, 8)) for i in range(3))
        check_saved(pc)
        # The code after the switch gives the red zone back; its description does not know of it.
        return "rip", "rsp", {"rip": pc, "rsp": sp + 24 + 128, "rbp": rbp, "rbx": rbx}
    if arch.startswith("aarch64"):
        data = read(sp, 160)
        values = {f"x{19 + i}": integer(data, 8 * i) for i in range(12)}
        check_saved(values["x30"])
        values.update(pc=values["x30"], sp=sp + 160)
        return "pc", "sp", values
    raise VergeError(f"backtraces of fibers are not known for {arch}")


class FiberUnwinder(Unwinder):
    """While it has a target, the caller of the innermost frame is the fiber's."""

    def __init__(self):
        super().__init__("verge-fiber")
        self.target = None

    class Id:
        def __init__(self, sp, pc):
            self.sp = sp
            self.pc = pc

    def aim(self, sp):
        pc_name, sp_name, values = saved_registers(sp)
        newest = gdb.newest_frame()
        at = (int(newest.read_register(sp_name)), int(newest.read_register(pc_name)))
        self.target = (pc_name, sp_name, at, values)
        gdb.invalidate_cached_frames()

    def drop(self):
        self.target = None
        gdb.invalidate_cached_frames()

    def __call__(self, pending):
        if self.target is None:
            return None
        pc_name, sp_name, at, values = self.target
        here = (int(pending.read_register(sp_name)), int(pending.read_register(pc_name)))
        if here != at:
            return None
        # gdb wants callers further up: below the fiber's own frames.
        identity = self.Id(gdb.Value(values[sp_name] - 16), gdb.Value(at[1]))
        info = pending.create_unwind_info(identity)
        for name, value in values.items():
            # As a signed number: gdb makes 8 bytes of it, whatever it is.
            signed = value - (1 << 64) if value >> 63 else value
            info.add_saved_register(name, gdb.Value(signed))
        return info


unwinder = FiberUnwinder()
register_unwinder(None, unwinder, replace=True)


def backtrace(sp, arguments):
    """gdb's bt of a stack that was left, without the frames of the thread that is borrowed."""
    level = gdb.selected_frame().level()
    unwinder.aim(sp)
    try:
        frame, borrowed = gdb.newest_frame(), 1
        while frame.type() == gdb.INLINE_FRAME:
            frame, borrowed = frame.older(), borrowed + 1
        text = gdb.execute("bt " + arguments, to_string=True)
    finally:
        unwinder.drop()
        gdb.execute(f"frame level {level}", to_string=True)
    shown = False
    for line in text.splitlines():
        number = re.match(r"#(\d+) +", line)
        if number:
            shown = int(number[1]) >= borrowed
            line = f"#{int(number[1]) - borrowed:<3}" + line[number.end() :]
        if shown:
            print(line)


# ---- commands ------------------------------------------------------------------------------------


class Verge(gdb.Command):
    """Fibers of Verge: verge fibers, verge bt ID."""

    def __init__(self):
        super().__init__("verge", gdb.COMMAND_STACK, prefix=True)


class VergeFibers(gdb.Command):
    """The living fibers of all schedulers: verge fibers

States: new (has not run yet), ready (waits for a worker), running, waiting.  One that waits for a
stack has not run yet either: the kernel has refused it one.
WAITS FOR is what stop() reports.  WORKER is the one that runs it, with gdb's thread."""

    def __init__(self):
        super().__init__("verge fibers", gdb.COMMAND_STACK)

    def invoke(self, argument, _):
        if argument:
            raise VergeError("usage: verge fibers")
        found = cores()
        if not found:
            print("verge: no scheduler has been made")
        for core in found:
            lines = []
            counts = {}
            for fiber in core.fibers():
                counts[fiber.state] = counts.get(fiber.state, 0) + 1
                where = "-"
                if fiber.worker:
                    where = f"{fiber.worker[0]}, {thread_text(fiber.worker[1])}"
                stack = fiber.kind
                if fiber.stack and not fiber.stack[1]:
                    stack += " (not in this core file)"
                elif fiber.stack:
                    stack += f" {fiber.stack[0]:#x}-{fiber.stack[1]:#x}"
                name = fiber.name or "-"
                lines.append((str(fiber.id), name, fiber.state, fiber.reason, where, stack))
            total = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
            print(
                f"scheduler {core.name} at {core.address:#x}: {core.threads} worker threads, "
                f"{len(lines)} fibers" + (f": {total}" if total else "")
            )
            if not lines:
                continue
            lines.insert(0, ("ID", "NAME", "STATE", "WAITS FOR", "WORKER", "STACK"))
            widths = [max(len(line[i]) for line in lines) for i in range(5)]
            for line in lines:
                padded = [f"{text:<{width}}" for text, width in zip(line, widths)]
                print("  " + "  ".join(padded + [line[5]]))


class VergeBt(gdb.Command):
    """The backtrace of a fiber: verge bt ID [ARGUMENTS]

ID is an id or a name from `verge fibers`; ARGUMENTS go to gdb's own bt.
Of a fiber that runs it says on which thread: look at it with `thread N` and `bt`."""

    def __init__(self):
        super().__init__("verge bt", gdb.COMMAND_STACK)

    def invoke(self, argument, _):
        wanted, _, rest = argument.strip().partition(" ")
        if not wanted:
            raise VergeError("usage: verge bt ID [ARGUMENTS OF bt]")
        fiber = self.find(wanted)
        called = f"fiber {fiber.id}" + (f" ({fiber.name})" if fiber.name else "")
        if fiber.worker:
            doing = "runs" if fiber.state == "running" else f"waits ({fiber.reason})"
            print(f"{called} {doing} on {thread_text(fiber.worker[1])}, worker {fiber.worker[0]}")
        elif not fiber.started:
            print(f"{called} has not run yet: it has no stack")
        else:
            print(f"{called} is {fiber.state}" + (f": {fiber.reason}" if fiber.reason != "-" else ""))
            backtrace(fiber.saved_sp, rest)

    @staticmethod
    def find(wanted):
        try:
            number = int(wanted, 0)
        except ValueError:
            number = None
        found = [
            fiber
            for core in cores()
            for fiber in core.fibers()
            if (fiber.id == number if number is not None else fiber.name == wanted)
        ]
        if not found:
            raise VergeError(f"there is no living fiber {wanted}; `verge fibers` lists them")
        if len(found) > 1:
            ids = " ".join(str(fiber.id) for fiber in found[:20])
            raise VergeError(f"{len(found)} fibers are called {wanted}: {ids}")
        return found[0]


Verge()
VergeFibers()
VergeBt()
