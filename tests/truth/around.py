"""Kinds that differ in what stands around the question: fixtures, processes, threads, patches."""

from __future__ import annotations

from tests.truth.kinds import Again, Kind

ASK = 'assert llm.ask(f"q {i} rate=0.5").text == "yes"'


def around(name: str, source: str, **more: object) -> Kind:
    """A kind in which ASK is the question; it stands in a line of its own."""
    return Kind(name=name, source=source.replace("ASK", ASK), **more)  # type: ignore[arg-type]


AROUND = [
    around(
        "a class with setup_method",
        """
class TestA:
    def setup_method(self):
        self.said = []

    @evaluated()
    def test_a(self, llm, i):
        body()
        self.said.append(llm.ask(f"q {i} rate=0.5").text)
        assert self.said == ["yes"]
""",
    ),
    around(
        "an indirect parameter",
        """
@pytest.fixture
def question(request):
    return f"q {request.param} rate=0.5"

@llm_eval(repeats=5)
@pytest.mark.parametrize("question", range(40), indirect=True)
def test_a(llm, question):
    body()
    assert llm.ask(question).text == "yes"
""",
    ),
    around(
        "a fixture with parameters",
        """
@pytest.fixture(params=range(40))
def question(request, llm):
    return llm.ask(f"q {request.param} rate=0.5").text

@llm_eval(repeats=5)
def test_a(question):
    body()
    assert question == "yes"
""",
    ),
    around(
        "longer where the answer is wrong, by waiting",
        """
@evaluated()
def test_a(llm, i):
    body()
    said = llm.ask(f"q {i} rate=0.5").text
    if said != "yes":
        waiting(time.sleep, 0.02)
    assert said == "yes"
""",
    ),
    around(
        "CPU-bound",
        """
@evaluated()
def test_a(llm, i):
    body()
    sum(range(100_000))
    said = llm.ask(f"q {i} rate=0.5").text
    if said != "yes":
        sum(range(200_000))
    assert said == "yes"
""",
    ),
    around(
        "a short sleep",
        """
@evaluated()
def test_a(llm, i):
    body()
    time.sleep(0.005)
    ASK
""",
    ),
    around(
        "a child process",
        """
@evaluated(cases=20)
def test_a(llm, i):
    body()
    said = llm.ask(f"q {i} rate=0.5").text
    done = subprocess.run(["echo", said], capture_output=True, text=True, check=True)
    assert done.stdout == "yes\\n"
""",
        trials=100,
    ),
    around(
        "multiprocessing",
        """
import multiprocessing

multiprocessing.current_process()._config["daemon"] = False  # as this session was forked

def is_right(said):
    return said == "yes"

@evaluated(cases=20)
def test_a(llm, i):
    body()
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert all(pool.map(is_right, [llm.ask(f"q {i} rate=0.5").text]))
""",
        trials=100,
    ),
    around(
        "capsys",
        """
@evaluated()
def test_a(llm, i, capsys):
    body()
    print(llm.ask(f"q {i} rate=0.5").text)
    assert capsys.readouterr().out == "yes\\n"
""",
    ),
    around(
        "monkeypatch.setenv",
        """
@evaluated()
def test_a(llm, i, monkeypatch):
    body()
    assert "SAID" not in os.environ
    monkeypatch.setenv("SAID", llm.ask(f"q {i} rate=0.5").text)
    llm.ask(f"again {i} rate=0.5")
    assert os.environ["SAID"] == "yes"
""",
    ),
    around(
        "tmp_path",
        """
@evaluated()
def test_a(llm, i, tmp_path):
    body()
    assert not list(tmp_path.iterdir())
    (tmp_path / "said").write_text(llm.ask(f"q {i} rate=0.5").text)
    llm.ask(f"again {i} rate=0.5")
    assert (tmp_path / "said").read_text() == "yes"
""",
    ),
    around(
        "a folder of its own",
        """
@evaluated()
def test_a(llm, i, tmp_path, monkeypatch):
    body()
    monkeypatch.chdir(tmp_path)
    with open("said", "w") as file:
        file.write(llm.ask(f"q {i} rate=0.5").text)
    llm.ask(f"again {i} rate=0.5")
    assert open("said").read() == "yes"
""",
    ),
    around(
        "a clock that is patched by hand",
        """
import datetime

class Frozen(datetime.date):
    @classmethod
    def today(cls):
        return cls(2020, 1, 1)

@evaluated()
def test_a(llm, i):
    body()
    assert datetime.date.today().year > 2020
    kept, datetime.date = datetime.date, Frozen
    try:
        ASK
        assert datetime.date.today().year == 2020
    finally:
        datetime.date = kept
""",
    ),
    around(
        "time.time that is patched by monkeypatch",
        """
@evaluated()
def test_a(llm, i, monkeypatch):
    body()
    assert time.time() > 1000
    monkeypatch.setattr(time, "time", lambda: 7.0)
    ASK
    assert time.time() == 7.0
""",
    ),
    around(
        "random.seed, then two questions",
        """
@evaluated()
def test_a(llm, i):
    body()
    random.seed(i)
    llm.ask(f"examples {random.sample(range(99), 3)} for {i} rate=0.5")
    assert llm.ask(f"examples {random.sample(range(99), 3)} for {i} rate=0.5").text == "yes"
""",
    ),
    around(
        "numpy's seed, then two questions",
        """
import numpy

@evaluated()
def test_a(llm, i):
    body()
    numpy.random.seed(i)
    llm.ask(f"examples {numpy.random.randint(99)} for {i} rate=0.5")
    assert llm.ask(f"examples {numpy.random.randint(99)} for {i} rate=0.5").text == "yes"
""",
    ),
    around(
        "examples chosen by chance of its own",
        """
@evaluated()
def test_a(llm, i):
    body()
    llm.ask(f"first {i} rate=0.5")
    example = random.Random(i).choice(range(99))
    assert llm.ask(f"example {example} for {i} rate=0.5").text == "yes"
""",
    ),
    around(
        "SystemRandom, without a model",
        """
@evaluated(cases=200)
def test_a(i):
    body()
    assert random.SystemRandom().random() < 0.5
""",
        trials=1000,
        errors=4.5,
        again=Again.OWN_CHANCE,
        is_alike_afresh=False,
    ),
    around(
        "random.random, without a model or a seed",
        """
random.seed(3)

@evaluated(cases=200)
def test_a(i):
    body()
    assert random.random() < 0.5
""",
        trials=1000,
        again=Again.OWN_CHANCE,
        is_alike_afresh=False,
    ),
    around(
        "random.random after a question",
        """
random.seed(3)

@evaluated(cases=200)
def test_a(llm, i):
    body()
    llm.ask(f"q {i} rate=1")
    assert random.random() < 0.5
""",
        trials=1000,
        again=Again.OWN_CHANCE,
        is_alike_afresh=False,
    ),
    around(
        "threads that outlive the test",
        """
@evaluated()
def test_a(llm, i):
    body()
    said = []
    threading.Thread(target=time.sleep, args=(0.2,), daemon=True).start()
    ASK
""",
    ),
    around(
        "the first future counts",
        """
@evaluated()
def test_a(llm, i):
    body()
    with ThreadPoolExecutor(1) as pool:
        done, _ = wait_for_futures(
            [pool.submit(llm.ask, f"q {i} rate=0.5")], return_when=FIRST_COMPLETED
        )
        assert done.pop().result().text == "yes"
""",
    ),
    around(
        "a database that blocks",
        """
import sqlite3

@evaluated()
def test_a(llm, i, tmp_path):
    body()
    database = sqlite3.connect(tmp_path / "a.db")
    database.create_function("slow", 1, lambda text: (time.sleep(0.005), text)[1])
    said = llm.ask(f"q {i} rate=0.5").text
    assert database.execute("SELECT slow(?)", [said]).fetchone() == ("yes",)
    database.close()
""",
    ),
]
