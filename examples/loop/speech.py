"""Makes speech from sentences, with noise: python speech.py FOLDER [N]. Needs Debian's flite and sox, and numpy.

Every other sentence is for tuning, the rest is held out. Writes FOLDER/tune and FOLDER/held-out with wav files, and
beside these the words: tune.tsv and held-out.tsv.
"""

import subprocess
import sys
import wave
from pathlib import Path

import numpy as np

VOICES, NOISE_DECIBELS = ("rms", "slt", "awb", "kal16"), (22, 26, 30, 34)


def main(folder, most=None):
    rng = np.random.default_rng(1)
    sentences = (Path(__file__).parent / "sentences.txt").read_text().splitlines()[:most]
    words = {"tune": [], "held-out": []}
    for part in words:
        (folder / part).mkdir(parents=True, exist_ok=True)
    for number, sentence in enumerate(sentences):
        part = "held-out" if number % 2 else "tune"
        place = folder / part / f"{number:02d}.wav"
        raw = place.with_suffix(".raw.wav")
        voice = VOICES[number // 2 % len(VOICES)]
        # flite looks for the end of its standard input
        subprocess.run(["flite", "-voice", voice, "-t", sentence, "-o", raw], check=True, stdin=subprocess.DEVNULL)
        subprocess.run(["sox", raw, "-r", "16000", "-b", "16", "-c", "1", place], check=True)
        raw.unlink()
        with wave.open(str(place)) as sound:
            clean = np.frombuffer(sound.readframes(sound.getnframes()), np.int16).astype(float)
        ratio = 10 ** (NOISE_DECIBELS[number // 8 % len(NOISE_DECIBELS)] / 10)
        noisy = clean + rng.normal(scale=np.sqrt(np.mean(clean**2) / ratio), size=len(clean))
        with wave.open(str(place), "wb") as sound:
            sound.setparams((1, 2, 16000, 0, "NONE", ""))
            sound.writeframes(np.clip(noisy, -32768, 32767).astype(np.int16).tobytes())
        words[part].append(f"{place.relative_to(folder)}\t{sentence}\n")
    for part, rows in words.items():
        (folder / f"{part}.tsv").write_text("".join(rows))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
