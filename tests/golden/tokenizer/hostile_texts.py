"""Texts that broke tokenizers, or could. Used by make_tokenizer_goldens.py."""

LATIN = [
    "Hello, world!", "The quick brown fox jumps over the lazy dog.", "unaffable", "embeddings", "don't can't I'm we've",
    "naïve café", "nai\u0308ve cafe\u0301", "É", "E\u0301", "É\u0323", "\u1eb9\u0301", "e\u0323\u0301", "e\u0301\u0323",
    "\u00e9\u0323\u00e9", "Ǻ", "A\u030a\u0301", "\u212b", "ÅÄÖ åäö", "Straße STRASSE ß \u1e9e", "İstanbul ISTANBUL ı İ",
    "I\u0307", "i\u0307\u0323", "ﬁ ﬂ ﬃ", "Ǆ ǅ ǆ", "ŉ", "ſ K Å", "Œuvre æon Ærø", "Łódź", "đ Đ ð Ð", "ø Ø", "Ợ ợ Ớ",
    "Tiếng Việt", "Tie\u0302\u0301ng Vie\u0323\u0302t", "a\u0300\u0301\u0302\u0303\u0304\u0305b", "\u0301", "\u0301\u0301a",
    " \u0301 ", "a\u0345", "\u0344", "\u0340\u0341\u0343", "x\u0338=", "o\u031b\u0323\u0301", "zalgo: H\u0321\u0353\u0322e\u0337\u032dl\u0335p",
]
GREEK_CYRILLIC = ["ΟΔΥΣΣΕΥΣ ὀδυσσεύς", "Ά Έ ά έ ᾳ ᾼ ᾷ", "ΐ \u03b9\u0308\u0301", "Йод йод И\u0306", "Ёлка", "Привет, мир!", "Ѐ ѐ Ѝ"]
CJK = [
    "老白拿起他的锅铲", "老白 拿起 他的 锅铲", "中文abc中文", "a中b", "中", "汉字，标点。", "「引号」", "㐀䶿", "𠀀𪛖", "𪜀𫜴𫝀𫠝",
    "𫠠𬺡", "𰀀", "豈更車", "\uf900\ufaff", "丽\U0002f800", "龦龥鿿", "々〆〇", "㊀㈱", "⺀⻳⼀", "日本語のテキスト", "漢字かな交じり",
    "アイウ ｱｲｳ", "ﾊﾞ ﾊﾟ", "バ", "ハ\u3099", "で", "て\u3099", "ぱ は\u309a", "バで", "ハ\u3099て\u3099", "ヴ ウ\u3099", "ー々",
    "한국어", "한국어 형태소", "\u1112\u1161\u11ab\u1100\u116e\u11a8", "가각간", "ㄱㄴㄷ", "\uac00\u11a8", "\u1100\u1161\u11a7", "훈민정음\u302e", "ㆍ\u318d",
]
RIGHT_TO_LEFT = [
    "שלום עולם", "שָׁלוֹם", "שׁ \u05e9\u05c1 \ufb2a", "مرحبا بالعالم", "اَلْعَرَبِيَّةُ", "ﷺ ﷲ", "ﻻ ﺍ", "أ ا\u0654", "\u202eabc\u202c", "\u2067abc\u2069 אבג",
    "\u200fא\u200e a", "۱۲۳ ١٢٣", "؟ ، ؛", "ܫܠܡܐ", "ހެލޯ", "ߒߞߏ",
]
OTHER_SCRIPTS = [
    "नमस्ते दुनिया", "क\u093c क़ \u0958", "বাংলা \u09cb \u09c7\u09be", "தமிழ் கொ", "ಕನ್ನಡ \u0ccb", "മലയാളം ൻ", "සිංහල \u0ddd", "ไทย ำ", "ລາວ",
    "བོད་སྐད། \u0f73 \u0f75 \u0f81 \u0f43", "မြန်မာ", "ᠮᠣᠩᠭᠣᠯ \u1885\u1886", "ខ្មែរ", "አማርኛ ።", "ᏣᎳᎩ ꭰ", "ꦗꦮ \ua9bd", "𑇉 \U000111c9", "ᜠ\u1734", "𐐀𐐨 Ꙁꙁ",
    "𞤀𞤢", "𑄮 \U00011131\U00011127", "𝐇𝐞𝐥𝐥𝐨 𝔊𝕠", "Ａｂｃ １２３", "① ② Ⅷ ⅷ ½", "m² H₂O ª º", "𝅗𝅥 \U0001d15e \U0001d165", "᙭ \u166d ᐁ",
]
EMOJI = [
    "😀", "a😀b", "👍🏽", "👨‍👩‍👧‍👦", "👩‍💻 codes", "🏳️‍🌈", "🇩🇪🇯🇵", "❤️ ❤", "☺︎ ☺️", "#️⃣ 1️⃣", "🧑🏿‍🚀🫠", "💩" * 30, "\u200d\ufe0f", "🤷🏻‍♂️ ok",
    "\U0001f3fb", "\U000e0067\U000e007f",
]
CONTROLS = [
    "", " ", "   ", "\t\n\r", "\n", "a\tb\nc\rd", "a\0b", "\0", "\0\0 \0", "a\x01b", "\x7f", "a\x85b", "\x80\x9f", "\ufeffbom", "a\ufeffb", "\ufffd", "a\ufffdb",
    "soft\u00adhyphen", "\u00ad", "zero\u200bwidth", "zero\u200cwidth", "zero\u200dwidth", "word\u2060joiner", "\u200b", "no\u00a0break", "\u00a0", "\u3000全角\u3000",
    "\u2028line\u2029para", "\u1680ogham\u180emongol", "\u2000\u2001\u2009\u200a\u202f\u205f", "\x0b\x0c", "\x1c\x1d\x1e\x1f", "a\x1cb", "\u061c", "\u2066\u2069",
    "\ufff9a\ufffab\ufffb", "\U0001bca0", "\U000e0001", "\u0600 \u06dd \u070f", "\u034f", "a\u034fb", "\u115f\u1160\u3164\uffa0", "\u17b4\u17b5",
]
UNUSUAL_CODE_POINTS = [
    "\ue000", "a\ue000b", "\uf8ff", "\U000f0000", "\U0010fffd", "a\U0010ffffb", "\ufdd0", "\uffff", "\U0001ffff", "\u0378", "a\u0378b", "\u05ff", "\u2fff",
    "\u0897", "\u1c89", "\ua7cb\ua7dc", "\U00010d50\U00010d65", "\U00016ea0", "\U0002ebf0", "\U000323af", "\ud7ff\ue000", "\U00010000",
    "\u2e5d\u2e52", "\u2e3a\u2e42\u2e43", "\U00011938", "\u1df9\u1df5", "\U0001e8d0", "\U0001e94a",
]
PUNCTUATION = [
    "...", "!?!?", "a.b,c;d", "$5.00 + 3% = ~8^2", "`code` | pipe", "<tag attr='x'>", "C:\\path\\file", "user@example.com", "http://a.b/c?d=e&f#g",
    "“quotes” ‘single’ «guillemets»", "em—dash en–dash", "…", "¿Qué? ¡Sí!", "§ ¶ † ‡", "© ® ™", "€ £ ¥ ₿", "× ÷ ± ∞", "№ ℃", "﹏﹐﹑", "⁅⁆ ⸨⸩", "٪ ٭ ।", "‿⁀ _", "·•‧",
    "''''", "\"\"", "----", "____", "####", "## ##ing #", "a##b",
]
LONG = [
    "x" * 99, "x" * 100, "x" * 101, "x" * 1000, "é" * 100, "é" * 101, "e\u0301" * 100, "中" * 120, "İ" * 60, "a" * 50 + "😀", "antidisestablishmentarianism",
    "pneumonoultramicroscopicsilicovolcanoconiosis", "a " * 300, "." * 150, "\u0301" * 200, "a" + "\u0301" * 200, "안" * 34, "ab" * 50, "the" * 40,
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
]
SPECIAL = [
    "[SEP]", "[CLS]", "[MASK]", "[UNK]", "[PAD]", "a [SEP] b", "a[SEP]b", "[SEP][SEP]", "[CLS] a [SEP]", "[sep]", "[ SEP ]", "[SEP", "SEP]", "[[SEP]]", "[MASK].", "un[MASK]able",
    "[SEP]\u0301", "É[MASK]É", "[M\0ASK]", "[MA\u00adSK]", "\uff3bMASK\uff3d", "[unused0]", "[unused99] [UNUSED0]", "<s> </s> <pad>", "##ing", "[MASK][MASK] [MASK]", "\t[SEP]\n",
]
NUMBERS_AND_CODE = ["1234567890", "3.14159", "1,000,000", "0x1F600", "2026-11-29T15:53:02Z", "int main() { return 0; }", "{\"a\": [1, 2]}", "a_b_c fooBar", "\\u00e9 \\0", "%s %d"]

HOSTILE = (LATIN + GREEK_CYRILLIC + CJK + RIGHT_TO_LEFT + OTHER_SCRIPTS + EMOJI + CONTROLS + UNUSUAL_CODE_POINTS
           + PUNCTUATION + LONG + SPECIAL + NUMBERS_AND_CODE)
