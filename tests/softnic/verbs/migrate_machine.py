"""migrate_machine.py PORT [pin]   Migrates a virtual machine from one QEMU to another over RDMA. Prints how many bytes of
8 MiB of its memory are others then; the exit status is 1 if any is."""

import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time

ADDRESS = 0x1000000  # no firmware touches it
BYTES = 8 << 20


class Machine:
    def __init__(self, folder, name, *more):
        self.path = os.path.join(folder, name)
        self.process = subprocess.Popen(
            ["qemu-system-x86_64", "-M", "pc,accel=tcg", "-m", "64", "-display", "none", "-nodefaults",
             "-qmp", f"unix:{self.path},server=on,wait=off", *more])
        while True:  # until it listens; the caller ends a run that takes too long
            if self.process.poll() is not None:
                sys.exit(f"{name} ended with status {self.process.returncode}")
            try:
                self.socket = socket.socket(socket.AF_UNIX)
                self.socket.connect(self.path)
                break
            except OSError:
                time.sleep(0.02)
        self.file = self.socket.makefile("rw")
        self.file.readline()
        self.ask("qmp_capabilities")

    def ask(self, command, **arguments):
        self.file.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.file.flush()
        while True:
            line = self.file.readline()
            if not line:
                sys.exit(f"{self.path} has ended")
            answer = json.loads(line)
            if "error" in answer:
                sys.exit(f"{command}: {answer['error']['desc']}")
            if "return" in answer:
                return answer["return"]

    def wait_for(self, command, *states):
        while True:
            state = self.ask(command).get("status")
            if state in states:
                return state
            time.sleep(0.02)


def main():
    uri = f"rdma:127.0.0.1:{sys.argv[1]}"
    content = random.Random(1).randbytes(BYTES)
    machines = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            image = os.path.join(folder, "content")
            with open(image, "wb") as file:
                file.write(content)
            source = Machine(folder, "source", "-device", f"loader,file={image},addr={ADDRESS},force-raw=on")
            machines.append(source)
            target = Machine(folder, "target", "-incoming", "defer")
            machines.append(target)
            if "pin" in sys.argv[2:]:
                for machine in machines:
                    machine.ask("migrate-set-capabilities",
                                capabilities=[{"capability": "rdma-pin-all", "state": True}])
            target.ask("migrate-incoming", uri=uri)
            source.ask("migrate", uri=uri)
            if source.wait_for("query-migrate", "completed", "failed") == "failed":
                sys.exit(f"the migration failed: {source.ask('query-migrate')}")
            target.wait_for("query-status", "running")
            saved = os.path.join(folder, "saved")
            target.ask("pmemsave", val=ADDRESS, size=BYTES, filename=saved)
            with open(saved, "rb") as file:
                found = file.read()
            wrong = sum(a != b for a, b in zip(found, content)) + BYTES - len(found)
            print(f"migrated, bytes that differ: {wrong}")
            return 1 if wrong else 0
        finally:
            for machine in machines:
                machine.process.kill()
                machine.process.wait()


sys.exit(main())
