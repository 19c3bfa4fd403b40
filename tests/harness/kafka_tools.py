"""Many calls of Kafka's command line tools, in one JVM: a start costs seconds, a call some milliseconds.

    first, second = run_tool("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", [["--list", ...], [...]])
    first, second = run_tools([("org.apache.kafka.tools.ClusterTool", ["cluster-id", ...]), (...)])

A small Java program calls the tool's `main` again and again, and keeps what each call prints apart. It is compiled by
the JVM that runs it (JEP 330), so a JDK is needed, not only a runtime. A tool that wants to exit goes on to the next
call.
"""

from __future__ import annotations

import pathlib
import subprocess
import tempfile
from collections.abc import Sequence
from typing import NamedTuple

from tests.harness.apache_kafka import VERSION, java_command

LIMIT_S = 120
SOURCE = """
import java.io.*;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.Arrays;

public class Calls {
    static Object status;

    static Class<?> exit() throws ClassNotFoundException {
        try {
            return Class.forName("org.apache.kafka.common.utils.Exit");
        } catch (ClassNotFoundException moved) {  // since 4.4
            return Class.forName("org.apache.kafka.common.utils.internals.Exit");
        }
    }

    public static void main(String[] arguments) throws Exception {
        var procedure = Class.forName(exit().getName() + "$Procedure");
        var stays = Proxy.newProxyInstance(procedure.getClassLoader(), new Class<?>[] {procedure},
            (proxy, method, of) -> { status = of[0]; throw new RuntimeException("exit"); });
        exit().getMethod("setExitProcedure", procedure).invoke(null, stays);
        var calls = new BufferedReader(new InputStreamReader(System.in));
        var out = System.out;
        for (String call; (call = calls.readLine()) != null; ) {
            var words = call.split("\\t");
            var tool = Class.forName(words[0]).getMethod("main", String[].class);
            var printed = new ByteArrayOutputStream();
            var complaints = new ByteArrayOutputStream();
            System.setOut(new PrintStream(printed));
            System.setErr(new PrintStream(complaints));
            status = 0;
            try {
                tool.invoke(null, (Object) Arrays.copyOfRange(words, 1, words.length));
            } catch (InvocationTargetException left) {
                if (!"exit".equals(left.getCause().getMessage())) {  // it failed
                    status = 1;
                }
            }
            out.print(printed + "\\u001f" + complaints + "\\u001f" + status + "\\u001e");
        }
    }
}
"""


class Told(NamedTuple):
    """What a call printed on standard output, and on standard error; and the status that it wanted to exit with."""

    out: str
    complaints: str
    status: int


def run_tool(main: str, calls: Sequence[Sequence[str]], version: str = VERSION) -> list[Told]:
    """Call the tool of this release with each of these arguments; what each call printed. No argument may have a tab in
    it."""
    return run_tools([(main, call) for call in calls], version)


def run_tools(calls: Sequence[tuple[str, Sequence[str]]], version: str = VERSION) -> list[Told]:
    """The same with the class of a tool in each call."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "Calls.java"
        source.write_text(SOURCE)
        done = subprocess.run(
            java_command(version, str(source)),
            check=False,
            input="".join("\t".join([main, *call]) + "\n" for main, call in calls),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]
    told = [_told(*text.split("\x1f")) for text in done.stdout.split("\x1e")[:-1]]
    assert len(told) == len(calls), done.stderr[-2000:]
    return told


def _told(out: str, complaints: str, status: str) -> Told:
    return Told(out, complaints, int(status))
