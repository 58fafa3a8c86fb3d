"""The estimate: monotonic in the text (law 16), inside its stated bands, fast, and never in the way."""

import importlib.util
import inspect
import random
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from growth import count_calls
from refold.core.tokens import estimate as module
from refold.core.tokens.estimate import (
    BLOCK,
    FAMILY,
    FIRST,
    HEAVIEST,
    UNIT,
    code_pairs,
    estimate,
)
from refold.tokenizers import exact

SCRIPTS = Path(__file__).parents[3] / "scripts"


def _script(name):
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


SAMPLES = _script("sample_texts")
CALIBRATION = _script("calibrate_estimate")
BAND = CALIBRATION.load_bands()

# Written for this test: nothing the weights were fitted to.
WRITTEN = {
    "prose": """
The old mill stands where the river bends, a mile below the village, and nobody has ground corn in it for
sixty years. Swallows nest under its eaves. When the water is low you can still see the stones of the weir,
and children cross on them in summer with their shoes in their hands. My grandmother used to say that the
miller had buried his savings under the third step of the stair, but she also said that the moon was older
than the sun, and she laughed when we believed her.
""",
    "chat": """
Hey! I've been thinking about repainting the kitchen this weekend. Do you think a warm grey would work with
oak cabinets, or is that too dull? The room faces north, so it doesn't get much light after lunch.

That's a great question! A warm grey can look lovely with oak, but in a north-facing room I'd go a shade
lighter than you think you need. Try two or three sample pots on different walls and look at them in the
morning and in the evening before you decide. Would you like a few specific suggestions?
""",
    "typescript": """
export interface Retry<T> { readonly attempts: number; readonly delayMs: number; run(): Promise<T> }

export async function withRetry<T>(task: () => Promise<T>, { attempts, delayMs }: Omit<Retry<T>, "run">): Promise<T> {
  let lastError: unknown;
  for (let attempt = 0; attempt < attempts; attempt++) {
    try {
      return await task();
    } catch (error) {
      lastError = error;
      await new Promise((resolve) => setTimeout(resolve, delayMs * 2 ** attempt));
    }
  }
  throw new Error(`gave up after ${attempts} attempts`, { cause: lastError });
}
""",
    "chinese": """
昨天下午我和几个朋友去了城外的小山。天气很好，风也不大，我们沿着石阶慢慢往上走，一边聊天一边看风景。山顶上有一座旧亭子，
据说已经有两百多年的历史了。站在那里可以看到整座城市，河水像一条银色的带子从中间穿过。我们带了茶和点心，坐了很久才下山。
回家的路上下起了小雨，大家都没有带伞，可是谁也不觉得扫兴。如果下个月有时间，我还想再去一次，最好能看到日出。
""",
    "japanese": """
昨日の午後、友だちと一緒に町の外れにある小さな山に登りました。天気がよくて風も弱かったので、石段をゆっくり歩きながら
話をしたり景色を眺めたりしました。頂上には古い東屋があり、二百年以上前に建てられたそうです。そこからは町全体が見渡せて、
川が銀色の帯のように流れていました。お茶とお菓子を持って行ったので、長いあいだ座って休みました。
""",
    "korean": """
어제 오후에 친구들과 함께 도시 밖에 있는 작은 산에 올라갔습니다. 날씨가 좋고 바람도 약해서 돌계단을 천천히 걸으며 이야기를
나누고 경치를 구경했습니다. 정상에는 오래된 정자가 있는데 이백 년이 넘었다고 합니다. 그곳에서는 도시 전체가 보이고 강이
은빛 띠처럼 흘러갑니다. 차와 과자를 가져가서 오랫동안 앉아 쉬었습니다.
""",
    "cyrillic": """
Вчера днём мы с друзьями поднялись на небольшую гору за городом. Погода была хорошая, ветра почти не было, и мы
медленно шли по каменным ступеням, разговаривали и смотрели по сторонам. Наверху стоит старая беседка, говорят,
ей больше двухсот лет. Оттуда виден весь город, а река блестит посередине, как серебряная лента. Мы взяли с собой
чай и печенье и долго сидели, прежде чем спуститься.
""",
    "arabic": """
صعدنا أمس بعد الظهر مع بعض الأصدقاء إلى جبل صغير خارج المدينة. كان الجو جميلا والريح خفيفة، فمشينا ببطء على
الدرجات الحجرية ونحن نتحدث وننظر إلى المناظر. في القمة مبنى قديم يقال إن عمره أكثر من مئتي سنة. من هناك ترى
المدينة كلها، ويجري النهر في وسطها مثل شريط من الفضة. حملنا معنا الشاي والحلوى وجلسنا وقتا طويلا قبل أن ننزل.
""",
    "hindi": """
कल दोपहर हम कुछ दोस्तों के साथ शहर के बाहर एक छोटी पहाड़ी पर गए। मौसम अच्छा था और हवा भी हल्की थी, इसलिए हम पत्थर
की सीढ़ियों पर धीरे धीरे चलते हुए बातें करते रहे और नज़ारा देखते रहे। ऊपर एक पुरानी छतरी है, लोग कहते हैं कि वह दो सौ
साल से भी ज़्यादा पुरानी है। वहाँ से पूरा शहर दिखता है और नदी बीच में चाँदी की पट्टी जैसी बहती है।
""",
    "european": """
Gestern Nachmittag sind wir mit ein paar Freunden auf den kleinen Berg vor der Stadt gestiegen. Das Wetter war
schön, es ging kaum Wind, und wir liefen langsam die steinernen Stufen hinauf und redeten. Oben steht ein alter
Pavillon, angeblich über zweihundert Jahre alt. Hier soir, nous avons préparé le dîner ensemble: une soupe de
légumes, du pain frais et un gâteau aux pommes que ma sœur avait apporté de la campagne.
""",
}

anything = st.text(st.characters(), max_size=200)
"""Any code points, lone surrogates and NUL included."""
pieces = st.lists(
    st.sampled_from(
        [
            "word",
            " ",
            "\n",
            "Camel",
            "X",
            "0",
            "12345",
            "a1B2",
            "_",
            "()",
            "é",
            "中文",
            "😀",
            "\u200d",
            "\ud800",
            "\0",
        ]
    ),
    max_size=60,
).map("".join)
texts = anything | pieces


def naive(text: str) -> int:
    """The estimate by its definition: a sum over pairs, one after another, and over runs of one letter."""
    data = text.encode("utf-8", "surrogatepass")
    plain = data.translate(module._PLAIN, module._CONTINUATION).decode()
    other = data.translate(module._OTHER, module._ASCII).decode()
    letters = data.translate(None, module._CONTINUATION)
    units = FIRST
    for place, (first, second) in enumerate(pairwise(plain)):
        run = letters[max(0, place % module.BLOCK - 38 + place // module.BLOCK * module.BLOCK) : place + 2]
        repeats = len(run) == 40 and len(set(run)) == 1 and run[:1].isalpha()
        units += module.RUN if repeats else module._PLAIN_WEIGHTS[int(first + second, 16)]
    units += sum(module._OTHER_WEIGHTS[int(first + second, 16)] for first, second in pairwise(other))
    return (units + UNIT // 2) // UNIT if text else 0


@given(texts, st.integers(0, 200), st.integers(0, 200))
def test_a_part_of_a_text_never_has_more_tokens(text, begin, end):
    """Law 16: prefix, suffix and any slice are estimated at most as large as the whole."""
    assert estimate(text[:end]) <= estimate(text)
    assert estimate(text[begin:]) <= estimate(text)
    assert estimate(text[begin:end]) <= estimate(text)


@given(texts, texts)
def test_a_text_grows_by_what_is_put_before_or_behind_it(text, more):
    """Law 16, with text of another kind on either side."""
    assert estimate(text) <= estimate(text + more)
    assert estimate(text) <= estimate(more + text)


@given(texts)
@example("")
@example("a")
@example("é")
@example("x" * 511)
@example("x" * 512)
@example("x" * 513)
@example("AA- 1 " * 20)  # every third even pair has letters of one class, and no letter repeats
@example("AB" * 40)  # every pair has
@example("." + "x" * 40)
@example("é." + "x" * 39 + "y" * 40)
@example("Ab1 " * (BLOCK // 4) + "tail é")
@example("é1" * BLOCK)
def test_the_fast_way_and_the_blocks_give_the_sum_over_pairs(text):
    """Neither the short way, nor the blocks, nor the bytes added up at once change the value."""
    assert estimate(text) == naive(text)


@given(texts, st.integers(1, 9))
def test_the_size_of_a_block_does_not_matter(text, block):
    """Blocks are for the processor's cache only."""
    whole = estimate(text)
    original = module.BLOCK
    module.BLOCK = block
    try:
        units = module._units(text) if text else 0
    finally:
        module.BLOCK = original
    assert not text or (FIRST + units + UNIT // 2) // UNIT == whole


@given(texts)
def test_only_no_text_has_no_tokens(text):
    assert (estimate(text) == 0) == (not text)


@given(texts)
def test_pairs_are_one_fewer_than_characters(text):
    """What the weights are fitted to: one pair for each character but the first."""
    plain, other = code_pairs(text)
    assert len(plain) == max(0, len(text) - 1)
    assert len(other) == max(0, sum(len(c.encode("utf-8", "surrogatepass")) for c in text if c > "\x7f") - 1)


def test_weights_stay_where_the_sum_is_exact():
    """`adler32` adds 512 bytes up without wrapping only while none is above 127; none may be nothing."""
    for weights in (module._PLAIN_WEIGHTS, module._OTHER_WEIGHTS):
        assert len(weights) == 256
        assert max(weights) <= HEAVIEST
        assert min(weights) > 0
    assert module._ADDABLE * HEAVIEST < 65_521


def test_heaviest_text_is_added_up_exactly():
    """A text whose every pair has the largest weight does not wrap around."""
    code = module._PLAIN_WEIGHTS.index(max(module._PLAIN_WEIGHTS))
    first, second = (module._PLAIN.index(module._LETTERS[nibble]) for nibble in divmod(code, 16))
    text = (chr(first) + chr(second)) * 3_000
    assert estimate(text) == naive(text)


# --- bands ----------------------------------------------------------------------------------------------


def off(text: str, count: Callable[[str], int]) -> float:
    return estimate(text) / count(text) - 1


@pytest.fixture(scope="module")
def count():
    return exact.make_counter("o200k")


@pytest.mark.few_values(2)
@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(SAMPLES.MAKERS))
def test_made_texts_stay_in_their_band(kind, count):
    """Law 16 for logs, JSON, base64, hex, numbers, emoji and symbols: 95 % are inside, so 90 % here."""
    rng = random.Random(f"{kind} of the tests")
    errors = [off(SAMPLES.made(kind, rng, rng.choice([500, 2_000, 8_000])), count) for _ in range(60)]
    band = BAND[kind]
    outside = [error for error in errors if not band.low <= error <= band.high]
    assert len(outside) <= len(errors) // 10, outside
    assert sum(map(abs, errors)) / len(errors) <= band.mean * 1.5


@pytest.mark.parametrize("kind", sorted(WRITTEN))
def test_written_texts_stay_in_their_band(kind, count):
    """Law 16 for prose, chat, TypeScript, CJK and other scripts, on text written for this test."""
    assert BAND[kind].low <= off(WRITTEN[kind], count) <= BAND[kind].high


def test_python_stays_in_its_band(count):
    """Law 16 for code: sources of the standard library in pieces of 2,000 characters."""
    sources = "".join(inspect.getsource(found) for found in (importlib.util, inspect, random, Path))
    cut = [sources[at : at + 2_000] for at in range(0, len(sources) - 2_000, 2_000)]
    errors = [off(piece, count) for piece in cut]
    band = BAND["python"]
    assert sum(band.low <= error <= band.high for error in errors) >= len(errors) * 0.9
    assert sum(map(abs, errors)) / len(errors) <= band.mean * 1.5


def test_mean_error_is_at_most_eight_per_cent(count):
    """The target for prose, chat, TypeScript, JSON, logs, Chinese, base64 and hex together."""
    rng = random.Random(3)
    made = {
        kind: [SAMPLES.made(kind, rng, 4_000) for _ in range(10)]
        for kind in ("json", "logs", "base64", "hex")
    }
    kinds = made | {kind: [WRITTEN[kind]] for kind in ("prose", "chat", "typescript", "chinese")}
    means = [sum(abs(off(text, count)) for text in given_) / len(given_) for given_ in kinds.values()]
    assert sum(means) / len(means) <= 0.08
    assert max(means) <= 0.25


def test_every_kind_of_the_law_has_a_band_and_none_is_wide():
    """Law 16 names its kinds; no kind is off by more than a quarter on average, and all together by 8 %."""
    named = {"prose", "chat", "python", "typescript", "json", "logs", "chinese", "japanese", "korean"}
    named |= {"cyrillic", "arabic", "hindi", "emoji", "base64", "hex"}
    assert named <= set(BAND)
    for band in BAND.values():
        assert band.low < 0 < band.high
        assert band.mean < 0.25
        assert band.low > -0.3
        assert band.high < 0.3
    assert sum(BAND[kind].mean for kind in named) / len(named) <= 0.08


# --- speed and hostile input ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ["The quick brown fox. " * 250_000, "def f(x):\n    return x\n" * 230_000, "快速的棕色狐狸" * 240_000],
    ids=["prose", "code", "chinese"],
)
def test_no_python_runs_for_each_character(text):
    """All work over characters is done in C, hundreds at once."""
    assert count_calls(lambda: estimate(text)) < len(text.encode()) / 50


@pytest.mark.parametrize(
    "text",
    [
        "\0" * 100_000,
        "\ud800" * 100_000,
        "\udfff\ud800" * 1_000,
        " " * 1_000_000,
        "a" * 1_000_000,
        "\n" * 100_000,
        "👨\u200d👩\u200d👧\u200d👦" * 10_000,
        "e" + "\u0301" * 100_000,
        "\U0010ffff" * 10_000,
        "<|endoftext|>" * 1_000,
    ],
    ids=lambda text: f"{text[:2]!a}",
)
def test_no_text_is_refused(text):
    """Faults C34, C35, C36 and F20: a number comes back, at least one and at most two a character's byte."""
    assert 1 <= estimate(text) <= 2 * len(text.encode("utf-8", "surrogatepass"))


def test_a_subclass_of_str_counts_like_its_text():
    """A question to a model is a string with attributes."""

    class Question(str):
        __slots__ = ()

    assert estimate(Question("What is left?")) == estimate("What is left?")


# --- the calibration ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_fit_finds_the_weights_that_made_the_counts():
    """Pieces whose tokens follow known weights give these weights back, inside their limits."""
    rng = random.Random(6)
    true = {17: 0.3, 33: 0.05, 40: 1.4, 260: 0.9, 300: 0.0}
    pieces = []
    for _ in range(60):
        features = {code: rng.randint(20, 400) for code in true}
        tokens = FIRST / UNIT + sum(true[code] * number for code, number in features.items())
        pieces.append(CALIBRATION.Piece("prose", 0, tokens, features))
    weights = CALIBRATION.solve([CALIBRATION.normal_equations(pieces, {"prose": 1.0})])
    least = CALIBRATION.LIGHTEST[1] / UNIT
    for code, weight in (true | {300: least}).items():
        assert weights[code] == pytest.approx(weight, abs=0.06)
    plain, other = CALIBRATION.whole(weights)
    assert min(plain) >= CALIBRATION.LIGHTEST[0]
    assert min(other) >= CALIBRATION.LIGHTEST[1]
    assert max(plain + other) <= HEAVIEST


def test_the_calibration_measures_what_the_estimate_gives(count):
    """The error of a piece in the report is the error of `estimate`."""
    text = WRITTEN["prose"] + WRITTEN["chinese"]
    piece = CALIBRATION.Piece("prose", 0, count(text), CALIBRATION.features(text))
    assert CALIBRATION.off(piece, module._PLAIN_WEIGHTS, module._OTHER_WEIGHTS) == pytest.approx(
        off(text, count)
    )


def test_a_band_holds_95_per_cent_of_the_errors():
    errors = [number / 1_000 for number in range(-100, 100)]
    assert CALIBRATION.band(errors) == CALIBRATION.Band(low=-0.095, high=0.094, mean=0.05)


# --- what stands beside it ------------------------------------------------------------------------------


def test_families_are_near_o200k_and_openai_is_it():
    """Multipliers are for other tokenizers; none that is measured is below o200k or a third above it."""
    assert FAMILY["openai"] == 1.0
    assert 1.1 <= FAMILY["anthropic"] <= 1.25
    assert all(1.0 <= factor <= 1.3 for factor in FAMILY.values())


def test_tables_cannot_be_changed():
    with pytest.raises(TypeError):
        FAMILY["openai"] = 2.0
