"""Links over real sockets: bounded stop, counted refusals, leftovers, newest-wins wake-ups."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path

import pytest
import zmq

from daemon.bus import LINGER_MS, Bus, BusError
from daemon.config import Daemon
from daemon.messages import ActionProposal, Applied, FrameReady, Hello, Refused, Welcome
from daemon.runtime import MAX_SOCKET_PATH, InstanceLock, RuntimeFolder, RuntimeFolderError, probe_runtime


@pytest.fixture
def runtime(run_folder: Path) -> RuntimeFolder:
    folder = RuntimeFolder(Daemon(name="test", runtime=str(run_folder / "run"), state=str(run_folder / "state")))
    folder.create()
    return folder


def ready(seq: int) -> FrameReady:
    return FrameReady(view="v", epoch=1, seq=seq, sensor_ns=seq)


def wait_for(socket: zmq.Socket[bytes], seconds: float = 2.0) -> None:
    assert socket.poll(round(seconds * 1000)), "nothing arrived"


def test_messages_pass_and_strangers_are_counted(runtime: RuntimeFolder) -> None:
    with Bus(runtime) as bus:
        inbox = bus.subscriber("proposal", "arm")
        outbox = bus.publisher("proposal", "arm")
        inbox.socket.poll(200)  # the binding end must turn once before its subscription goes out
        proposal = ActionProposal(agent="one", sensor_ns=1, frame_seq=1, action="UP")
        outbox.send(proposal)
        outbox.send(ready(1))
        wait_for(inbox.socket)
        time.sleep(0.05)
        assert inbox.receive() == [proposal]
        assert bus.refused == {"proposal@arm": 1}


def test_closing_is_bounded_with_an_absent_and_with_a_silent_peer(runtime: RuntimeFolder) -> None:
    began = time.monotonic()
    with Bus(runtime) as bus:
        bus.publisher("proposal", "nobody").send(ActionProposal(agent="one", sensor_ns=1, frame_seq=1))
        asker = bus.command_client("command", "nobody")
        assert asker.ask(Hello(), timeout_ms=50) is None
        silent = zmq.Context()
        listener = silent.socket(zmq.SUB)
        listener.setsockopt(zmq.SUBSCRIBE, b"")
        listener.setsockopt(zmq.RCVHWM, 1)
        listener.connect(runtime.endpoint("frame", "cam"))
        talker = bus.publisher("frame", "cam")
        time.sleep(0.1)
        for seq in range(5000):
            talker.send(ready(seq))
    listener.close(0)
    silent.term()
    assert time.monotonic() - began < 2.0 + LINGER_MS / 1e3


def test_a_socket_left_by_a_crash_is_replaced(runtime: RuntimeFolder) -> None:
    path = runtime.endpoint("frame", "cam").removeprefix("ipc://")
    leftover = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    leftover.bind(path)
    leftover.close()
    with Bus(runtime) as bus:
        inbox = bus.subscriber("frame", "cam")
        outbox = bus.publisher("frame", "cam")
        inbox.socket.poll(200)
        outbox.send(ready(1))
        wait_for(inbox.socket)


def test_a_process_that_ends_leaves_no_socket(runtime: RuntimeFolder) -> None:
    path = Path(runtime.endpoint("applied", "arm").removeprefix("ipc://"))
    with Bus(runtime) as bus:
        bus.publisher("applied", "arm")
        assert path.is_socket()
    assert not path.exists()


def test_a_file_where_the_socket_should_be_is_named_and_kept(runtime: RuntimeFolder) -> None:
    path = Path(runtime.endpoint("frame", "cam").removeprefix("ipc://"))
    path.write_text("precious")
    with Bus(runtime) as bus, pytest.raises(BusError, match="expected a socket or nothing, found another kind of file"):
        bus.publisher("frame", "cam")
    assert path.read_text() == "precious"


def test_readers_find_a_restarted_publisher_again(runtime: RuntimeFolder) -> None:
    with Bus(runtime) as reader:
        inbox = reader.subscriber("frame", "cam")
        for life in (1, 2):
            with Bus(runtime) as writer:
                outbox = writer.publisher("frame", "cam")
                until = time.monotonic() + 3
                while not inbox.socket.poll(50) and time.monotonic() < until:
                    outbox.send(ready(life))
                assert inbox.receive()[-1] == ready(life)
            inbox.receive()


def test_a_late_reader_is_told_what_holds_before_anything_new(runtime: RuntimeFolder) -> None:
    def applied(seq: int) -> Applied:
        return Applied(seq=seq, applied_ns=seq, cause="proposal", action="UP")

    refused = Refused(agent="one", reason="stale", detail="", sensor_ns=1, refused_ns=2)
    with Bus(runtime) as bus:
        outbox = bus.publisher("applied", "arm")
        for message in (applied(1), applied(2), refused):
            outbox.send(message)
        for _ in range(2):
            inbox = bus.subscriber("applied", "arm")
            outbox.socket.poll(200)
            outbox.welcome()
            wait_for(inbox.socket)
            assert inbox.receive() == [applied(2)]
        outbox.send(applied(3))
        wait_for(inbox.socket)
        assert inbox.receive() == [applied(3)]


def test_commands_are_asked_and_answered(runtime: RuntimeFolder) -> None:
    with Bus(runtime) as bus:
        server, client = bus.command_server("command", "arm"), bus.command_client("command", "arm")
        stranger: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        stranger.setsockopt(zmq.LINGER, 0)
        stranger.connect(runtime.endpoint("command", "arm"))
        stranger.send(b"\xff" * 100)
        stranger.send_multipart([b"a", b"b", b"c"])
        wait_for(server.socket)
        time.sleep(0.1)
        assert server.receive() is None
        assert bus.refused == {"command@arm": 2}
        assert client.ask(Hello(), timeout_ms=10) is None
        wait_for(server.socket)
        asked = server.receive()
        assert asked is not None
        server.reply(asked[0], Welcome(epoch=1, now_ns=2))
        assert client.ask(Hello(), timeout_ms=1000) == Welcome(epoch=1, now_ns=2)
        stranger.close()
        zmq.Context.instance().term()


def test_a_lock_names_its_owner_and_goes_with_it(tmp_path: Path) -> None:
    with InstanceLock(tmp_path / "lock"):
        with pytest.raises(RuntimeFolderError, match=f"held by process {os.getpid()}"), InstanceLock(tmp_path / "lock"):
            pass
    with InstanceLock(tmp_path / "lock"):
        pass


def create(path: Path) -> None:
    RuntimeFolder(Daemon(name="test", runtime=str(path), state=str(path.parent / "state"))).create()
    probe_runtime(path)


def test_runtime_folders_that_cannot_work_are_refused_at_start(run_folder: Path) -> None:
    with pytest.raises(RuntimeFolderError, match="too long for sockets"):
        create(run_folder / ("x" * MAX_SOCKET_PATH))
    (run_folder / "file").write_text("")
    with pytest.raises(RuntimeFolderError, match="cannot make this folder"):
        create(run_folder / "file")


def test_a_full_runtime_folder_is_refused_at_start(small_tmpfs: Path) -> None:
    create(small_tmpfs / "run")
    with (small_tmpfs / "fill").open("ab", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        while True:
            file.write(b"x" * 4096)
    with pytest.raises(RuntimeFolderError, match="cannot write here: No space left on device"):
        create(small_tmpfs / "run")


def test_a_read_only_runtime_folder_is_refused_at_start(small_tmpfs: Path) -> None:
    create(small_tmpfs / "run")
    subprocess.run(["mount", "-o", "remount,ro", str(small_tmpfs)], check=True)
    with pytest.raises(RuntimeFolderError, match="Read-only file system"):
        create(small_tmpfs / "run")
