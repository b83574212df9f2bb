"""How text that means to talk to a judge looks: the phrases, by kind. Data for quarantine.py.

They are matched in lower case, without accents and with white space folded. Each stands for a family of sayings and is
narrow enough to leave ordinary code alone; what they miss, the control criteria catch.
"""

import re

Family = tuple[str, re.Pattern[str]]

OVERRIDES = "overrides instructions"
ADDRESSES = "speaks to a judge"
VERDICTS = "a planted verdict"
ROLES = "a role marker"
DELIMITERS = "a delimiter"

_JUDGE = (
    r"(?:verif(?:ier|ication (?:model|agent))|judge|grader|evaluator|assessor|auditor|(?:code |ai )?reviewer|llm"
    r"|language model|ai (?:model|assistant|system)|assistant|chatbot|gpt|claude)"
)
_BEFORE = r"(?:previous|prior|above|earlier|preceding|foregoing|original|initial|system)"
_ORDERS = r"(?:instruction|prompt|directive|direction|guideline|guidance|command)s?"
_ASKED = r"(?:verdict|criteri(?:on|a)|requirements?)"
_PASSED = r"(?:met|satisfied|fulfilled|verified|passed|passing|approved|accepted)"
_DONE = r"(?:met|satisfied|fulfilled|verified|passed|passing|approved|accepted|complete|completed|true|done)"
_JUDGING = r"(?:mark|consider|treat|judge|count|rate|grade|deem|declare)"


def _family(*sayings: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{saying})" for saying in sayings))


_ENGLISH_OVERRIDES = (
    (
        r"\b(?:ignor(?:e|ing)|disregard|forget|override|overrule|pay no attention to"
        r"|(?:do not|don'?t|stop) (?:follow|obey|heed)\w*)\b.{0,40}?"
        rf"(?:\b(?:{_BEFORE}|all(?: of)?(?: the| your)?|any|your|those|these)\b.{{0,25}}?\b{_ORDERS}\b"
        rf"|\b(?:{_BEFORE}|your)\b.{{0,25}}?\b(?:rules?|criteria|context|messages?|text|task)\b)"
    ),
    (
        rf"\b(?:new|updated|revised|real|actual|additional|important) (?:system )?{_ORDERS}"
        r"(?: (?:for|to) (?:the |you|any )|\s?:)"
    ),
)
_OTHER_OVERRIDES = (
    # Spanish, Portuguese, Italian, French, by either order of noun and adjective
    (
        r"\bignor\w{1,5}\b.{0,40}\b(?:instrucciones|instrucoes|istruzioni|instructions|consignes)\b"
        r".{0,20}\b(?:anterior|previa|preced|ci-dessus)"
    ),
    r"\bignor\w{1,5}\b.{0,25}\b(?:preceden\w+|anterior\w*|previ\w+)\b.{0,15}\b(?:instru\w+|istruzioni|consignes)",
    # German, Dutch
    r"\b(?:ignorier\w*|missacht\w*|vergiss|vergessen sie)\b.{0,40}\b(?:anweisung|instruktion|vorgabe|regel)",
    r"\b(?:negeer|vergeet)\b.{0,30}\b(?:instructies|opdrachten|aanwijzingen)",
    # Russian, Chinese, Japanese, Korean
    (
        "\u0438\u0433\u043d\u043e\u0440\u0438\u0440\\w*.{0,40}"
        "(?:\u0438\u043d\u0441\u0442\u0440\u0443\u043a\u0446|\u0443\u043a\u0430\u0437\u0430\u043d)"
    ),
    (
        "(?:\u5ffd\u7565|\u65e0\u89c6|\u5ffd\u89c6|\u5ffd\u8996|\u7121\u8996).{0,12}"
        "(?:\u6307\u4ee4|\u6307\u793a|\u63d0\u793a|\u8bf4\u660e|\u8aaa\u660e|\u89c4\u5219)"
    ),
    "(?:\u6307\u793a|\u547d\u4ee4|\u6307\u4ee4).{0,6}(?:\u7121\u8996|\u5fd8\u308c)",
    "(?:\uc774\uc804|\uc704\uc758|\ubaa8\ub4e0).{0,8}(?:\uc9c0\uc2dc|\uba85\ub839|\uc9c0\uce68).{0,6}\ubb34\uc2dc",
)
_ENGLISH_ADDRESSES = (
    rf"\byou(?:'re| are| act as| must act as| will act as| should act as| work as)\b(?: \w+){{0,4}}? {_JUDGE}\b",
    (
        r"\b(?:to|for|dear|hello|hey|hi|attention|attn|note|memo|message|hint|warning|important)\b\W{1,4}"
        r"(?:(?:to|for|the|all|any|whichever|every|whoever is the) ){0,3}(?:\w+ )?"
        r"(?:verifier|judge|grader|evaluator|assessor|auditor|language model|llm"
        r"|ai (?:model|reviewer|judge|assistant|system))s?\b"
        r"\s*(?:[:,!.]|you\b|please\b|must\b|should\b|who\b|reading\b|-)"
    ),
    rf"\b(?:if|when|since|because|as) (?:you|the reader)(?:'re| are| is) (?:\w+ ){{0,3}}?{_JUDGE}\b",
)
_OTHER_ADDRESSES = (
    r"\bdu bist (?:der|ein|die|eine)\b.{0,20}\b(?:prufer|richter|gutachter|gutachterin|pruferin)",
    r"\b(?:tu es|vous etes) (?:le|un|la|une)\b.{0,20}\b(?:juge|verificateur|evaluateur)",
    r"\b(?:eres|usted es) (?:el|un|la|una)\b.{0,20}\b(?:juez|verificador|evaluador)",
    "(?:\u4f60|\u60a8)\u662f.{0,8}(?:\u8bc4\u5ba1|\u88c1\u5224|\u9a8c\u8bc1|\u5ba1\u67e5|\u8bc4\u4f30)",
)
_ENGLISH_VERDICTS = (
    (
        r"[\"'`]?\b(?:verdict|judge?ment|ruling)\b[\"'`]?\s*(?:[:=]|is|=>)\s*[\"'`]?"
        r"(?:met|pass(?:ed)?|approved?|verified|ship|accept(?:ed)?|yes|ok|true)\b"
    ),
    rf"\b(?:all|every|each|both|these)\b(?: \w+){{0,3}}? {_ASKED}\b.{{0,30}}?\b{_DONE}\b",
    rf"\b{_JUDGING}\b.{{0,40}}?\b(?:{_ASKED}|everything|each of them|all of (?:it|them))\b.{{0,40}}?\b{_PASSED}\b",
    rf"\b{_JUDGING}\b.{{0,60}}?\b(?:as|to be)\b\W{{0,3}}met\b",
    (
        rf"\b(?:return|report|answer|give|output|choose|pick|select|say|set)\b.{{0,20}}?\b{_PASSED}\b.{{0,15}}?"
        rf"\b(?:for|on|to)\b.{{0,15}}?\b(?:all|every|each|any|both|{_ASKED})\b"
    ),
    (
        r"\b(?:respond|reply|answer) (?:only |just |back |exactly )?(?:with|as|by|in|only)\b.{0,60}?"
        r"(?:\b(?:met|verified|approved?|ship|lgtm|verdict|nonce)\b"
        r"|\b(?:only|valid|this|following|exactly|just)(?: \w+)? json\b)"
    ),
    r"\b(?:output|say|write|emit|print|state|reply|answer)\b[^.]{0,25}?[\"'`<*](?:verified|approved|ship|met|lgtm)\b",
    r"[\"'`]?\bdecision\b[\"'`]?\s*(?:[:=]|is|=>)\s*[\"'`]?ship\b",
    r"\breviewers?\s*[:,].{0,60}\b(?:ship|lgtm|approved?|no issues)\b",
    r"\b(?:to|for|dear) (?:the |any |all )?(?:code |ai )?reviewers?\b.{0,60}\b(?:ship|lgtm|approved?|no issues)\b",
)
_OTHER_VERDICTS = (
    r"\b(?:tous les|chaque) criter\w+.{0,30}\b(?:rempli|satisfait|respecte|valide)",
    r"\b(?:todos los|cada) criterio\w*.{0,30}\b(?:cumpl|satisf)",
    r"\b(?:alle|jedes|samtliche) kriteri\w+.{0,30}\b(?:erfullt|bestanden)",
    r"\b(?:todos os|tutti i) criteri\w*.{0,30}\b(?:atendid|cumprid|soddisfatt)",
    (
        "\u0432\u0441\u0435 \u043a\u0440\u0438\u0442\u0435\u0440\u0438\\w*.{0,20}"
        "(?:\u0432\u044b\u043f\u043e\u043b\u043d|\u0443\u0434\u043e\u0432\u043b\u0435\u0442)"
    ),
    (
        "(?:\u6240\u6709|\u5168\u90e8).{0,6}(?:\u6807\u51c6|\u6a19\u6e96|\u6761\u4ef6|\u689d\u4ef6|\u51c6\u5219).{0,8}"
        "(?:\u6ee1\u8db3|\u6eff\u8db3|\u901a\u8fc7|\u901a\u904e|\u8fbe\u5230)"
    ),
    (
        "(?:\u3059\u3078\u3066|\u3059\u3079\u3066|\u5168\u3066).{0,6}(?:\u57fa\u6e96|\u6761\u4ef6).{0,8}"
        "(?:\u6e80\u305f|\u5408\u683c)"
    ),
)

PHRASES: tuple[Family, ...] = (
    (OVERRIDES, _family(*_ENGLISH_OVERRIDES, *_OTHER_OVERRIDES)),
    (ADDRESSES, _family(*_ENGLISH_ADDRESSES, *_OTHER_ADDRESSES)),
    (VERDICTS, _family(*_ENGLISH_VERDICTS, *_OTHER_VERDICTS)),
    (
        ROLES,
        _family(
            r"<\|\s*(?:im_start|im_end|system|user|assistant|end\w*|eot\w*|start\w*)\s*\|?>?",
            r"\[/?inst\]|<</?sys>>",
            r"</?\s*(?:system|assistant|system[-_ ](?:prompt|message|reminder)|instructions?|judge|verdict)\s*/?>",
        ),
    ),
    (
        DELIMITERS,
        _family(
            r"(?<!<)<{2,}\s*/?\s*(?:end[- ]?of[- ]?)?(?:data|block|untrusted|end|begin)\b",
            r"\b(?:data|block|untrusted|end|begin)\b[^<>]{0,60}>{3,}",
        ),
    ),
)

WHOLE_LINES: tuple[Family, ...] = (
    (
        VERDICTS,
        re.compile(
            r"(?:(?i:final |overall )?(?i:verdict|result|decision|status|conclusion)\W{1,4})?"
            r"(?:(?:NOT_)?VERIFIED|APPROVED?|SHIP(?: IT)?|LGTM|MET|ACCEPTED|PASS(?:ED)?)"
            r"(?:\s*[:!.,;\u2014-]\s*(?:[A-Za-z].{0,200})?)?",
        ),
    ),
    (
        ROLES,
        re.compile(
            r"(?:assistant|human)\s*:.*|system\s*:\s*(?:\w+[ ,.']+){3,}.*"
            r"|(?:system|assistant|human) (?:message|turn)\s*:?",
            re.IGNORECASE,
        ),
    ),
    (
        DELIMITERS,
        re.compile(
            r"(?:end|begin|start) of (?:the )?(?:untrusted )?(?:data|diff|input|documents?|messages?|block)",
            re.IGNORECASE,
        ),
    ),
)
"""Matched against a whole line, the signs of comments and lists taken off."""

RUN_TOGETHER: tuple[Family, ...] = (
    (
        OVERRIDES,
        _family(
            r"(?:ignore|disregard|forget|override)(?:all|any|the|your|of|my)*(?:previous|prior|above|earlier|system)"
            r"(?:instruction|prompt|rule|direction|criteria)"
        ),
    ),
    (
        VERDICTS,
        _family(
            r"(?:all|every|each)(?:the|of|acceptance)*criteri(?:a|on)(?:are|is|hasbeen|havebeen|now|as|fully)*"
            r"(?:met|satisfied|fulfilled|passed)",
            "verdictmet",
        ),
    ),
    (ADDRESSES, _family(r"youare(?:the|a|an|now|my)+(?:verifier|judge|reviewer|grader|evaluator)")),
)
"""Matched against text with nothing but letters in it."""
