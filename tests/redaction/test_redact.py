"""Secrets are found wherever they stand, and what a provider signed is never touched."""

import base64
import json
import random
import string
import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from growth import count_lines, stop_hang
from refold.errors import RefoldError
from refold.redaction import detect, redact, secret_shapes
from refold.redaction.detect import find_secrets
from refold.redaction.redact import Redactor, SecretMemory, make_redactor, redact_item, redact_text
from sample_sizes import few_or_all

LETTERS = string.ascii_letters + string.digits


def made(length, letters=LETTERS, seed=1):
    """Random text; made here, so that no file holds anything that looks like a key."""
    return "".join(random.Random(seed).choices(letters, k=length))


def web_token(seed=1):
    parts = [{"alg": "HS256", "typ": "JWT"}, {"sub": made(8, seed=seed)}]
    coded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*coded, made(43, seed=seed)])


def private_key(kind="RSA ", between="\n"):
    body = between.join(made(64, LETTERS + "+/", seed) for seed in range(5))
    return f"-----BEGIN {kind}PRIVATE KEY-----{between}{body}{between}-----END {kind}PRIVATE KEY-----"


SECRETS = {
    "aws": "AKIA" + made(16, string.ascii_uppercase + string.digits),
    "github": "ghp_" + made(36),
    "github fine": "github_pat_" + made(60),
    "gitlab": "glpat-" + made(20),
    "slack": "xoxb-" + made(12, string.digits) + "-" + made(24),
    "slack hook": "https://hooks.slack.com/services/T" + made(8) + "/B" + made(8) + "/" + made(24),
    "stripe": "sk_live_" + made(24),
    "stripe test": "sk_test_" + made(24),
    "sendgrid": "SG." + made(22) + "." + made(43),
    "square": "sq0csp-" + made(43),
    "twilio": "SK" + made(32, string.digits + "abcdef"),
    "pypi": "pypi-AgEIcHlwaS5vcmc" + made(80),
    "azure": "AccountKey=" + made(86) + "==",
    "mailchimp": made(32, string.digits + "abcdef") + "-us12",
    "telegram": made(9, string.digits) + ":" + made(35),
    "discord": "M" + made(23) + ".a1B2c3." + made(27),
    "npm": "npm_" + made(36),
    "anthropic": "sk-ant-api03-" + made(90),
    "openai": "sk-proj-" + made(60),
    "openai old": "sk-" + made(20) + "T3BlbkFJ" + made(20),
    "google": "AIza" + made(35),
    "hugging face": "hf_" + made(34),
    "groq": "gsk_" + made(52),
    "web token": web_token(),
    "linear": "lin_api_" + made(40),
    "notion": "ntn_" + made(46),
    "tailscale": "tskey-auth-" + made(17) + "-" + made(32),
    "sentry": "sntrys_" + made(80),
    "grafana": "glsa_" + made(32) + "_" + made(8, "0123456789abcdef"),
    "django": "django-insecure-$(9)" + made(46, string.ascii_lowercase + string.digits),
    "environment in base 64": base64.b64encode(f"X_API_KEY={made(24)}".encode()).decode(),
    "private key": private_key(),
    "private key, encrypted": private_key("ENCRYPTED "),
    "private key, escaped": private_key("", "\\n"),
}
SHOWN = {
    name: value.split(".")[-1][-24:] if name != "private key" else made(64, LETTERS + "+/", 2)
    for name, value in SECRETS.items()
}

CONTEXTS = {
    "basic auth": ("postgres://ada:{}@db.example.org/x", made(14)),
    "quoted": ('password = "{}"', made(12)),
    "object": ('{{"client_secret": "{}"}}', made(20)),
    "escaped": ('{{\\"api_key\\": \\"{}\\"}}', made(20)),
    "environment": ("export STRIPE_API_KEY={}\n", made(24)),
    "yaml": ("db_password: {}\n", made(16)),
    "header": ("Authorization: Bearer {}", made(40)),
    "npmrc": ("//registry.example.org/:_authToken={}", made(36)),
    "aws secret": ("aws_secret_access_key = '{}'", made(40, LETTERS + "+/")),
    "capitals, and one that grows": ("İİ PASSWORD='{}'", made(12)),
    "quotes inside": ('password = "a1\\"{}"', made(10)),
    "nothing but quotes": ("x('{}')", made(48)),
    "discord hook": ("https://discord.com/api/webhooks/123456789012345678/{}", made(68)),
    "short in the environment": ("SHELL=/bin/sh\nPGPASSWORD={}\nHOME=/", "hunter2"),
    "regular in yaml": ("db:\n  password: {}\n", "hunter2hunter2"),
    "option": ("deploy --db-password {} --dry-run", "S3cretPw9"),
    "option with a sign": ("deploy --token='{}'", "abcd1234efgh"),
    "option that is no name": ("deploy --token {}", "my_own_token_12"),
    "ssh": ("sshpass -p {} ssh host", "S3cretPw9"),
    "mysql": ("mysqldump -u root -p{} db", "S3cretPw9"),
    "docker": ("docker login -u me -p {} registry", "S3cretPw9"),
    "element": ("<server><password>{}</password></server>", "S3cretPw9"),
    "signed address": ("https://x.example/f?sv=2022&sig={}%3D", made(43)),
    "torn key with numbers": ("1→-----BEGIN RSA PRIVATE KEY-----\n2→{}\n", made(64)),
}


class TestText:
    @pytest.mark.parametrize("name", SECRETS)
    def test_each_kind_is_found(self, name):
        text = f"before {SECRETS[name]} after"
        done, count = redact_text(text)
        assert count == 1
        assert done.startswith("before [redacted:")
        assert done.endswith("] after")

    @pytest.mark.parametrize("name", CONTEXTS)
    def test_each_context_is_found(self, name):
        frame, secret = CONTEXTS[name]
        done = redact_text(frame.format(secret)).value
        assert secret not in done
        assert "[redacted:" in done

    def test_a_key_longer_than_its_pattern_goes_whole(self):
        assert redact_text("ghp_" + made(60)).value == "[redacted:github-token]"

    def test_many_in_one_line(self):
        done = redact_text(" ".join(SECRETS.values()))
        assert done.secrets == len(SECRETS)

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "short",
            "commit 3f786850e387550fdab836ed7e6dc881de23001b by ada",
            'sha = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"',
            "id: 123e4567-e89b-12d3-a456-426614174000",
            '"integrity": "sha512-' + made(86) + '=="',
            "data:image/png;base64," + made(4000, LETTERS + "+/"),
            'password = "your-password-1"',
            'password = "${PASSWORD_1}"',
            "password = os.environ.get_1",
            "PASSWORD=$DB_PASSWORD1 TOKEN=$(cat token1) SECRET=read_secret1(name) TOKEN=/run/token1",
            "run --password-stdin --token-file a1b2c3d4 --token /run/token1 mysql -p db docker login -p",
            "TOTAL=12,PASS=10,FAIL=2 docker build --secret id=npm2,src=npmrc.v2 .",
            "usage: tool [--token OAUTH2_TOKEN] --access-key S3_ACCESS_KEY",
            "  password: password1\n  password: user1.password,\n  password: str1 = field()",
            "secretName: my-tls-secret-2024",
            base64.b64encode(b"a text of 2024 without anything to hide in it").decode(),
            "secret = settings.SECRET_KEY2",
            "if password1 != password2:",
            "api_key: string, the key of the service",
            "max_tokens=100000 api_key=None",
            'from "components/UserProfileCardList2Container" import x',
            "task-management-board-12345-with-a-long-name",
            "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            'if "BEGIN RSA PRIVATE KEY" in text: raise ValueError("a private key must not be there")',
            "-----BEGIN PRIVATE KEY-----",
            "eyJhbGciOiJIUzI1NiJ9 and eyJ.eyJ.eyJ and eyJhbGciOiJIUzI1NiJ9.",
            '"tool_use_id": "toolu_' + made(24) + '"',
            "https://example.org/a:b/c@d",
            "a bearer of bad news, the bearer internationalisation",
            "gh and glpat- and AKIA and SG. and password= and ghp_" + "a" * 36,
        ],
    )
    def test_ordinary_text_stays(self, text):
        assert redact_text(text) == (text, 0)

    def test_putty_and_torn_keys(self):
        putty = f"PuTTY-User-Key-File-2: ssh-rsa\nPrivate-Lines: 1\n{made(64)}\nPrivate-MAC: {made(40, 'abcdef0123')}"
        assert redact_text(putty).value == "[redacted:private-key]"
        torn = private_key().partition("-----END")[0]
        assert redact_text(torn).value == "[redacted:private-key]"

    def test_what_shows_only_behind_another_is_found_in_the_next_pass(self):
        text = f"{SECRETS['web token']}sk-{made(30)} x"
        done = redact_text(text).value
        assert made(30) not in done
        assert redact_text(done) == (done, 0)

    @settings(max_examples=few_or_all(8, 50), deadline=None)
    @given(
        pieces=st.lists(
            st.one_of(
                st.text(max_size=20),
                st.sampled_from([*SECRETS.values(), *(f.format(s) for f, s in CONTEXTS.values())]),
                st.sampled_from(
                    ["password", "=", '"', "'", " ", ":", "\\", "eyJ", "sk-", "[redacted:x]", "\n"]
                ),
            ),
            max_size=8,
        )
    )
    def test_twice_is_once(self, pieces):
        done = redact_text("".join(pieces)).value
        assert redact_text(done) == (done, 0)

    def test_a_key_in_base_64_is_replaced_in_every_line(self):
        """`base64 key.pem` breaks its lines at 76 characters; only the first says what they are."""
        lines = base64.encodebytes(private_key().encode()).decode().splitlines()
        left = redact_text("\n".join(["$ base64 key.pem", *lines, "$ ls"])).value
        assert [line for line in lines[:-1] if line in left] == []

    def test_many_texts_in_base_64_are_searched_once(self, monkeypatch):
        """A search for each takes four times as long."""
        texts, search = [], detect.find_shapes
        monkeypatch.setattr(detect, "find_shapes", lambda text: texts.append(text) or search(text))
        find_secrets(f"{base64.b64encode(b'a text of 2024 without secrets').decode()} " * 50)
        assert len(texts) == 2

    @pytest.mark.few_values(3)
    @pytest.mark.parametrize(
        "unit",
        [
            "eyJ",
            "eyJhbGciOiJI.",
            "sk-",
            "password",
            "password=",
            'password="',
            "BEGIN RSA PRIVATE KEY",
            "BEGIN RSA PRIVATE KEY" * 700 + "-----END",
            "://a:",
            "AKIA",
            " mysql -p --a-",
            "PASSWORD=a1",
            "UEFTU1dPUkQ9",
            "\n  password: a1",
            "<token>",
            '"',
            " ",
        ],
    )
    def test_hostile_text_takes_linear_time(self, unit):
        """A quadratic pattern would need ten to the tenth steps for 200,000 characters."""
        with stop_hang():
            find_secrets(unit * (200_000 // len(unit)))


def wire(text):
    """One message of each wire shape, with a text in every place that may hold one."""
    return {
        "openai": {
            "role": "assistant",
            "content": [{"type": "text", "text": text}],
            "reasoning_content": text,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "run", "arguments": json.dumps({"a": [text], text: 1})},
                }
            ],
        },
        "openai tool": {"role": "tool", "tool_call_id": "c1", "content": text},
        "responses": {"type": "function_call", "call_id": "c", "name": "run", "arguments": "{" + text},
        "responses output": {
            "type": "function_call_output",
            "call_id": "c",
            "output": [{"type": "input_text", "text": text}],
        },
        "anthropic": {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": text},
                {"type": "text", "text": text},
                {
                    "type": "tool_use",
                    "id": "t",
                    "name": "run",
                    "input": {"deep": [{"data": text, "id": text, "signature": text}]},
                },
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": text}},
                {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": text}]},
            ],
        },
        "gemini": {
            "role": "model",
            "parts": [
                {"text": text},
                {"functionCall": {"name": "run", "args": {"x": text, "thoughtSignature": text}}},
                {"functionResponse": {"name": "run", "response": {"output": text}}},
            ],
        },
    }


def sealed(text):
    """Blocks that only their provider may read, with a secret in each."""
    return [
        {"type": "thinking", "thinking": text, "signature": text},
        {"type": "redacted_thinking", "data": text},
        {
            "type": "reasoning",
            "id": "rs",
            "summary": [{"type": "summary_text", "text": text}],
            "encrypted_content": text,
        },
        {"type": "compaction", "encrypted_content": text},
        {"text": text, "thoughtSignature": text},
        {"functionCall": {"name": "run", "args": {"a": text}}, "thought_signature": text},
        {"kind": "thinking", "text": text, "signature": text},
        {"type": "reasoning.encrypted", "data": text},
    ]


def media(text):
    return [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": text}},
        {"inlineData": {"mimeType": "image/png", "data": text}},
        {"type": "input_audio", "input_audio": {"data": text, "format": "wav"}},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{text}"}},
        {"type": "image_generation_call", "id": "ig", "result": text},
        {"type": "item_reference", "id": text},
        {"type": "tool_result", "tool_use_id": text},
    ]


PLANTS = st.sampled_from(sorted(SECRETS.items()))
AROUND = st.text(
    st.characters(exclude_categories=["L", "N", "Cs"], exclude_characters="_-+/=.~\\"), max_size=12
)


class TestItems:
    @settings(max_examples=few_or_all(8, 40), deadline=None)
    @given(plant=PLANTS, before=AROUND, after=AROUND)
    def test_law_14_no_planted_secret_survives(self, plant, before, after):
        name, secret = plant
        for shape, item in wire(f"{before} {secret} {after}").items():
            done = redact_item(item)
            text = json.dumps(done.value, ensure_ascii=False)
            assert done.secrets > 0, shape
            assert secret not in text, shape
            assert json.dumps(secret)[1:-1] not in text, shape
            assert SHOWN[name] not in text, shape
            assert redact_item(done.value) == (done.value, 0)

    @settings(max_examples=few_or_all(8, 50), deadline=None)
    @given(plant=PLANTS)
    def test_law_14_signed_blocks_are_the_same_to_the_byte(self, plant):
        blocks = [*sealed(plant[1]), *media(plant[1])]
        message = {"role": "assistant", "content": [*blocks, {"type": "text", "text": plant[1]}]}
        done = redact_item(message)
        assert done.secrets == 1
        assert json.dumps(done.value["content"][:-1]) == json.dumps(blocks)
        for block in blocks:
            assert redact_item(block) == (block, 0)

    def test_what_has_no_secret_is_the_very_object(self):
        for item in wire("nothing to see").values():
            assert redact_item(item).value is item

    def test_the_item_given_is_not_changed(self):
        item = wire(SECRETS["aws"])["anthropic"]
        before = json.dumps(item)
        redact_item(item)
        assert json.dumps(item) == before

    def test_a_value_is_known_by_the_name_of_its_field(self):
        item = {
            "type": "tool_use",
            "id": "t",
            "name": "login",
            "input": {"password": "hunter2", "user": "hunter2"},
        }
        done = redact_item(item).value
        assert done["input"] == {"password": "[redacted:named-secret]", "user": "hunter2"}

    def test_arguments_stay_json(self):
        arguments = json.dumps({"password": 'a1"\\b2é', "text": private_key(), "n": 1})
        item = {"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments}
        done = json.loads(redact_item(item).value["arguments"])
        assert done == {"password": "[redacted:named-secret]", "text": "[redacted:private-key]", "n": 1}

    @pytest.mark.parametrize("arguments", ["3", '"' + SECRETS["aws"] + '"', "[" * 100_000, "{"])
    def test_arguments_that_are_no_object_are_text(self, arguments):
        done = redact_item({"arguments": arguments}).value
        assert SECRETS["aws"] not in done["arguments"]

    def test_keys_that_become_alike_stay_apart(self):
        one, two = ("ghp_" + made(36, seed=seed) for seed in (1, 2))
        done = redact_item({"input": {one: 1, two: 2, 3: "three"}}).value
        assert done == {"input": {"[redacted:github-token]": 1, "[redacted:github-token] 2": 2, 3: "three"}}

    def test_any_depth(self):
        value = SECRETS["aws"]
        for _ in range(50_000):
            value = [value]
        assert redact_item(value).secrets == 1

    @pytest.mark.parametrize("value", [None, 3, True, "plain"])
    def test_any_value(self, value):
        assert redact_item(value) == (value, 0)


class TestModes:
    def test_each_border(self):
        secret = SECRETS["aws"]
        hidden = "[redacted:aws-access-key]"
        assert (make_redactor("off").on_storage(secret), make_redactor("off").on_export(secret)) == (
            secret,
            secret,
        )
        assert (make_redactor("export").on_storage(secret), make_redactor("export").on_export(secret)) == (
            secret,
            hidden,
        )
        assert (make_redactor("storage").on_storage(secret), make_redactor("storage").on_export(secret)) == (
            hidden,
            hidden,
        )
        assert make_redactor() == Redactor("off")

    def test_an_unknown_mode(self):
        with pytest.raises(RefoldError, match="use one of off, export, storage"):
            make_redactor("sometimes")

    def test_the_missing_extra_is_named(self, monkeypatch):
        def missing(name):
            raise ImportError(name)

        detect.load_library.cache_clear()
        monkeypatch.setattr(detect, "import_module", missing)
        try:
            with pytest.raises(RefoldError, match=r"pip install '\.\[redact\]'"):
                make_redactor("export")
            assert make_redactor("off").on_export("x") == "x"
        finally:
            detect.load_library.cache_clear()

    def test_the_library_is_not_imported_with_the_module(self):
        code = "import sys, refold.redaction.redact as r; r.make_redactor('off'); sys.exit('detect_secrets' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_detector_of_the_library_is_spoken_of():
    """A detector that a newer version brings is run, or left out for a reason."""
    import importlib
    import pkgutil

    from detect_secrets import plugins

    tables = detect.load_tables()
    names = set()
    for module in pkgutil.iter_modules(plugins.__path__):
        loaded = importlib.import_module(f"detect_secrets.plugins.{module.name}")
        names |= {
            n
            for n, o in vars(loaded).items()
            if getattr(o, "__module__", "") == loaded.__name__ and hasattr(o, "denylist")
        }
    assert names - {"RegexBasedDetector"} == {*tables["detectors"], *tables["not_run"]}
    assert redact.redact_text is redact_text


# -- keys of letters alone: a Hugging Face token has no digit in it ----------------------------------------


@pytest.mark.few_values(3)
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("form", ["{}", "token {} end", 'x = "{}"', "https://user:{}@host/", "{}\n"])
def test_a_token_of_letters_is_found(seed, form):
    chance = random.Random(seed)
    token = "hf_" + "".join(chance.choice(string.ascii_letters) for _ in range(34))
    assert token not in redact_text(form.format(token)).value


@pytest.mark.parametrize(
    "text",
    [
        "hf_" + "a" * 34,
        "hf_" + "abcdefghij" * 3 + "abcd",
        "hf_hub_download and hf_transfer are names",
        "xhf_" + "aB" * 17,
        "hf_" + "aB" * 17,
    ],
)
def test_a_name_that_begins_so_stays(text):
    assert redact_text(text).value == text


HASHES = {
    "bcrypt": "$2b$12$" + made(53),
    "sha512": "$6$rounds=5000$" + made(8) + "$" + made(86),
    "apache": "$apr1$" + made(8) + "$" + made(22),
    "yescrypt": "$y$j9T$" + made(22) + "$" + made(43),
    "argon2": "$argon2id$v=19$m=65536,t=3,p=4$" + made(22) + "$" + made(43),
    "django": "pbkdf2_sha256$600000$" + made(12) + "$" + made(43) + "=",
    "werkzeug": "pbkdf2:sha256:600000$" + made(16) + "$" + made(64, "0123456789abcdef"),
    "werkzeug scrypt": "scrypt:32768:8:1$" + made(16) + "$" + made(128, "0123456789abcdef"),
    "passlib": "$pbkdf2-sha256$29000$" + made(22) + "$" + made(43),
    "passlib scrypt": "$scrypt$ln=16,r=8,p=1$" + made(22) + "$" + made(43),
    "passlib bcrypt": "$bcrypt-sha256$v=2,t=2b,r=12$" + made(22) + "$" + made(31),
    "ldap": "{SSHA}" + made(32),
    "postgres": "SCRAM-SHA-256$4096:" + made(22) + "==$" + made(43) + "=:" + made(43) + "=",
}


@pytest.mark.parametrize("kind", HASHES)
def test_hashes_of_passwords_are_found(kind):
    """Whoever has one tries words until one fits."""
    text = f"root:{HASHES[kind]}:18000:0"
    (found,) = find_secrets(text)
    assert text[found.start : found.end].startswith(HASHES[kind])
    assert find_secrets(text.replace(HASHES[kind], HASHES[kind][:12])) == []


WORDS = "swordfish", "geheimnis", "letmein-now", "tr!cky-horse"


@pytest.mark.parametrize(
    "line",
    [
        "DB_PASSWORD={}",
        "DB_PASSWORD={}; export DB_PASSWORD",
        "DB_PASSWORD='{}';",
        "    environment:\n      MYSQL_PASSWORD: {}",
        '\tMYSQL_PASSWORD: "{}"',
        "export PGPASSWORD='{}' && psql",
        "PGPASSWORD={} psql -h db",
        "MYSQL_ROOT_PASSWORD: {}",
        "password={}",
        "spring.datasource.password={}",
        "db.internal:5432:prod:app:{}",
        "*:*:*:app:{}",
    ],
)
@pytest.mark.parametrize("word", WORDS)
def test_a_password_without_a_digit_is_found_where_only_settings_stand(line, word):
    text = f"The file:\n{line.format(word)}\nThat is all."
    assert [text[found.start : found.end] for found in find_secrets(text)] == [word]


def test_in_json_a_mark_tells_a_password_from_a_name():
    assert redact_text('{"password": "openSesame!"}').value == '{"password": "[redacted:password]"}'
    assert find_secrets('{"password": "current-value", "old_password": "Passwords"}') == []


@pytest.mark.parametrize(
    "text",
    [
        "    password=raw_word,\n    user=user",
        "user = User(password=hashed)",
        "password=get_word()\nPASSWORD=settings.WORD\nDB_PASSWORD=$WORD",
        "PASSWORD=changeme\nPASSWORD=password\nDB_PASSWORD=<yours>\nDB_PASSWORD=YOUR_PASSWORD",
        "password=required\npassword: optional",
        "password=hashed_word;\n    PASSWORD: this_word\n    DB_PASSWORD: SecretStr\n    DB_PASSWORD: SecretStr = x",
        "src/main.c:54:12:error:something\nhttp://db:5432/name",
        "that cost $6 and $2b, {SHA} and pbkdf2_sha256$ are names",
        "https://code.example.org/blob/{SHA}/src/library/messages/repair",
        'join="$1$suffix$some_name" and "$1$suffix$aVeryLongNameOfSomethingElse"',
        "app.log:5407:12:30:45.123\nmain.c:5412:10:error:undeclared\n2001:5432:abcd:1234:5678",
        "DB_PASSWORD=undefined\nDB_PASSWORD=default\nDB_PASSWORD=placeholder\nDB_PASSWORD=replace_me",
        "REQUIRE_PASSWORD=disabled\nBAD_PASSWORD: Incorrect\nRESET_PASSWORD=reset-link\nPASSWORD=not-set",
        "POSTGRES_PASSWORD=postgres\nlabel.password=Kennwort\nGRANT_PASSWORD=credentials",
        'BAD_PASSWORD="Nothing fits this entry"\nDB_PASSWORD="correct horse"',
        '{"forgot_password": "Vergessen?", "password": "Kennwort*", "login_password": "#login-field"}',
    ],
)
def test_names_and_placeholders_of_passwords_stay(text):
    assert find_secrets(text) == []


@pytest.mark.parametrize("between", ["\n", "\r\n", "\n    "])
def test_the_rest_of_a_broken_key_goes_with_it(between):
    key = "sk-ant-api03-" + made(90)
    text = f"use {key[:50]}{between}{key[50:]}\nand go on with commit {made(40, '0123456789abcdef')}"
    (found,) = find_secrets(text)
    assert text[found.start : found.end] == f"{key[:50]}{between}{key[50:]}"
    keys = [f"sk-ant-api03-{made(90 + n)}" for n in range(3)]
    assert len(find_secrets("\n".join(keys))) == 3
    for after in ("and_then_the_text_goes_on", made(40, "0123456789abcdef"), "ClassNameOfSomething: yes"):
        (found,) = find_secrets(f"use {key}\n{after}\n")
        assert found.end == 4 + len(key)


PLAIN_TEXTS = [
    *SECRETS.values(),
    *(frame.format(secret) for frame, secret in CONTEXTS.values()),
    *HASHES.values(),
    *(f"DB_PASSWORD={word}\npassword: {word}\n*:*:*:app:{word}" for word in WORDS),
    "the password is abc123x and das Kennwort ist abc123x",
    "contraseña: 'abc123x', senha é abc123x, mot de passe est abc123x",
    "pass_phrase: one-two-three-four",
    "-u me:abc123 --user=me:abc123 login me password abc123 ",
    f"Cookie: sid={made(30)}; token: {made(30)} secret_access_key={made(40)}",
    "4111 1111 1111 1111 3782 822463 10005 card 4111111111111111",
    f"AKC{made(12)} AP1{made(9)} xoxb-1-a https://u:{made(64, 'abcdef0123')}@x.cloudant.com",
    f"whsec_{made(16)}/{made(16)}= sntryu_{made(20)}+/={made(20)} {{SSHA}}{made(30)}",
    *("BEGIN PRIVATE KEY" + made(40), "key_pass='abc123x' dbpass=abc1234xyz my_pwd:=abc1234xyz"),
    *("a plain text of two lines\nabout nothing at all ", "f(a, b) { return a.token = b['key'] } "),
]
CHANGES = ["", " ", "\n", '"', "=", ":", "\\", "-", "x", "1", "ſ", "K", "İ", "ı", "٣", "１", "\u3000", "é", "你好", "😀", "\ud800"]  # fmt: skip


def change_text(text, at, change, width):
    """Put something into a text at one place, in place of so many characters that are there."""
    at %= len(text) + 1
    return text[:at] + change + text[at + width :]


@settings(max_examples=few_or_all(30, 500), deadline=None)
@given(
    pieces=st.lists(
        st.builds(
            change_text,
            st.sampled_from(PLAIN_TEXTS) | st.text(max_size=20),
            st.just(0) | st.integers(0, 200),
            st.sampled_from(CHANGES),
            st.integers(0, 1),
        ),
        max_size=6,
    ),
    between=st.sampled_from(["", " ", "\n", '"', "x" * 500]),
)
@example(["ſ" + SECRETS["openai"], "ſ" + SECRETS["environment in base 64"]], "")
@example(["BEGIN PRIVATE KEY" + made(40)], "")
def test_what_is_not_tried_would_have_found_nothing(pieces, between):
    """The reference tries every pattern on the whole text, and looks for each name alone."""
    text = between.join(pieces)
    hints = [hint for name in secret_shapes._SAID for hint in secret_shapes.read_hints(name)[1]]
    hints += [h for n in secret_shapes._WITHOUT_DIGIT for h in secret_shapes.read_hints(n)[1]]
    hints += [h for n in ("cookie", "token", "aws", "phrase", "hash") for h in secret_shapes.read_hints(n)[1]]
    library = detect.load_library()
    hints += [near for rule in (*library.rules, *library.keys) for near in rule.near]
    hints += ["private key", "bearer", "_auth"]

    class Open(secret_shapes.Glance):
        words = " ".join(hints)
        runs = property(lambda self: self.text)
        has_data = True
        has_clue = property(lambda self: True, lambda self, value: None)

    def find_named(look, library):
        lower = detect._lower(look.text)
        for name in (name for names in library.names.values() for name in names):
            at = lower.find(name)
            while at >= 0:
                after = at + len(name)
                if match := detect._ASSIGNED.match(look.text, after):
                    group = match.lastgroup or "bare"
                    is_sequential = library.is_sequential(match[group])
                    if detect._is_plausible(match[group], quoted=group != "bare") and not is_sequential:
                        yield secret_shapes.Secret(*match.span(group), "named-secret")
                        after = match.end()
                at = lower.find(name, after)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(detect, "Glance", Open)
        patch.setattr(detect, "_find_named", find_named)
        patch.setattr(
            detect, "find_runs", lambda text, *_: [m.span() for m in detect._CODED.finditer(text.decode())]
        )
        patch.setattr(secret_shapes, "_NUMBERS", (b"",))
        tried = find_secrets(text)
    assert find_secrets(text) == tried


def test_each_hint_stands_where_it_is_looked_for():
    """A text without the stem of a hint is not searched for it."""
    library = detect.load_library()
    wanted = [near for rule in (*library.rules, *library.keys) for near in rule.near]
    wanted += [name.encode("ascii", "replace").decode() for name in library.names]
    wanted += [first.lower() for first in library.private]
    for hint in wanted:
        assert hint in secret_shapes.Glance(" " * 500 + hint + "1abcdefgh").words
        assert len(hint) <= secret_shapes._BEFORE


class TestSecretMemory:
    def test_a_secret_and_its_parts_are_found_among_many(self):
        memory = SecretMemory()
        values = [f"k{number:03}Qx7Zr{number * 7919 % 1000:03}w" for number in range(300)]
        memory("\n".join(f'password = "{value}"' for value in values))
        said = f"it is {values[40]}, or {values[200][2:11]}, not x{values[77]}y or {values[5][:5]}"
        assert memory(said) == (
            f"it is [redacted:known], or [redacted:known], not x[redacted:known]y or {values[5][:5]}"
        )

    def test_a_rule_of_signs_is_no_part_of_a_secret(self):
        memory = SecretMemory()
        memory('api_key = "abcDEF123456xyz9"')
        assert memory("Results\n==========\nxyz9====") == "Results\n==========\nxyz9===="
        assert memory("abcDEF123456xyz9==") == "[redacted:known]"

    def test_what_is_said_later_is_not_searched_for_each_secret(self):
        def count_steps(secrets):
            memory = SecretMemory()
            memory("\n".join(f'password = "k{number:04}Qx7Zr"' for number in range(secrets)))
            return count_lines(lambda: memory("a step that went well"))

        assert count_steps(2_000) <= count_steps(100) + 500
