"""The prompts of the references. All texts are our own. Changing one changes the reference: make it again."""


def ledger(first, last):
    """A long text that repeats itself in form but not in detail, about 26 tokens a line."""
    keepers = ["Anna", "Bertil", "Chidi", "Dolores", "Emeka"]
    weather = ["fog until noon", "a clear sky", "rain from the west", "snow on the stairs", "wind that shook the glass"]
    seen = ["a grey ship", "two fishing boats", "no sail at all", "a whale and its calf", "the mail steamer"]
    lines = []
    for day in range(first, last + 1):
        lines.append(
            f"Day {day}: {keepers[day % 5]} kept the light. There was {weather[day * 3 % 5]}, and"
            f" {seen[day * 2 % 5 - day % 2]} passed at {day * 7 % 12 + 1} o'clock."
        )
    return "\n".join(lines)


CODE_GO = """package main

import "fmt"

// gcd returns the greatest common divisor of a and b.
func gcd(a, b int) int {
\tfor b != 0 {
\t\ta, b = b, a%b
\t}
\treturn a
}

func main() {
"""

CODE_PYTHON = "def is_prime(n):\n    \"\"\"Return True if n is a prime number.\"\"\"\n    if n < 2:\n        return False\n"

CODE_SQL = "-- The ten customers who spent most last year.\nSELECT c.name, SUM(o.total) AS spent\nFROM customers c\nJOIN orders o ON"

JSON_TEXT = '{"name": "stoker", "languages": ["go", "assembly"], "models": [{"file": "a.gguf", "bytes": 98362432}, {"file":'

# Each chat is a name and its messages, a user's and an assistant's by turns; a first one with "system: " is the system's.
CHATS = [
    ("chat-capital", ["What is the capital of France?"]),
    ("chat-moon", ["Explain in a few sentences why the moon has phases."]),
    ("chat-german", ["Erkläre mir bitte, wie ein Kühlschrank funktioniert."]),
    ("chat-french", ["Écris une courte lettre à un ami pour l'inviter à dîner samedi."]),
    ("chat-russian", ["Расскажи коротко, почему листья осенью желтеют."]),
    ("chat-japanese", ["日本の四季について簡単に説明してください。"]),
    ("chat-chinese", ["请用简单的话解释什么是重力。"]),
    ("chat-arabic", ["اكتب قصة قصيرة عن صياد وسمكة."]),
    ("chat-emoji", ["What do these mean? 🎉🚀 😅 👩‍🚀 🇯🇵 ❤️‍🔥"]),
    ("chat-code", ["Write a Python function that returns the n-th Fibonacci number, with a short explanation."]),
    ("chat-system", ["system: You are a ship's cook. Answer in the words of one.", "What's for dinner, and how do you make it?"]),
    ("chat-turns", ["Name three colours.", "Red, green and blue.", "And three more that are not among them?", "Yellow, brown and white.",
                    "Write one sentence about each of all six."]),
]

RAW_CHAT_MODEL = [
    ("raw-once", "Once upon a time, in a village by the sea,"),
    ("raw-facts", "The three most important facts about water are: 1."),
    ("raw-german", "Der Zug nach München hatte wieder einmal Verspätung, und die Reisenden auf dem Bahnsteig"),
    ("raw-french", "La recette de la soupe à l'oignon est simple. D'abord,"),
    ("raw-russian", "В начале зимы река замёрзла, и дети"),
    ("raw-japanese", "吾輩が住む町には、小さな図書館がある。"),
    ("raw-chinese", "春天来了,花园里的花"),
    ("raw-arabic", "في صباح يوم الجمعة، ذهب الولد إلى"),
    ("raw-go", CODE_GO),
    ("raw-json", JSON_TEXT),
    ("raw-spaces", "a  b   c\n\n\n\td\t\te\r\nf 1234567890 0x7f 3.14159 1,000,000\n  -"),
    ("raw-long", ledger(1, 31) + "\nDay 32:"),
]

RAW_BASE_MODEL = [
    ("raw-capital", "The capital of France is"),
    ("raw-once", "Once upon a time, in a village by the sea,"),
    ("raw-history", "The history of the printing press begins long before the fifteenth century. In China, wooden blocks were cut by hand, and"),
    ("raw-german", "Der Zug nach München hatte wieder einmal Verspätung, und die Reisenden auf dem Bahnsteig"),
    ("raw-french", "La recette de la soupe à l'oignon est simple. D'abord,"),
    ("raw-spanish", "Cuando llegó la primavera, los agricultores del valle"),
    ("raw-russian", "В начале зимы река замёрзла, и дети"),
    ("raw-japanese", "吾輩が住む町には、小さな図書館がある。"),
    ("raw-chinese", "春天来了,花园里的花"),
    ("raw-arabic", "في صباح يوم الجمعة، ذهب الولد إلى"),
    ("raw-hindi", "भारत एक विशाल देश है जहाँ"),
    ("raw-emoji", "🎉🚀 Launch day! 😅 Our crew 👩‍🚀 from 🇯🇵 said"),
    ("raw-go", CODE_GO),
    ("raw-python", CODE_PYTHON),
    ("raw-sql", CODE_SQL),
    ("raw-json", JSON_TEXT),
    ("raw-numbers", "1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89,"),
    ("raw-spaces", "a  b   c\n\n\n\td\t\te\r\nf 1234567890 0x7f 3.14159 1,000,000\n  -"),
    ("raw-window", ledger(1, 18) + "\nDay 19:"),
    ("raw-long", ledger(1, 38) + "\nDay 39:"),
]

RAW_TINY = [
    ("raw-once", "Once upon a time, in a village by the sea,"),
    ("raw-mixed", "Привет, 世界! It's 12345 o'clock: naïve café 🎉\n\n\tx = y[0] + 1"),
    ("raw-long", ledger(1, 6) + "\nDay 7:"),
]
