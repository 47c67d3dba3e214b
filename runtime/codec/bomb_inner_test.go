package codec

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// craft returns a sealed form of a body that claims any size. An attacker without a key can craft
// such forms only if payloads are not encrypted.
func craft(k *Key, size int, body []byte) []byte {
	flags := compressed
	var id string
	if k != nil {
		flags, id = flags|encrypted, k.ID
	}
	b := appendHeader(nil, flags, size, id)
	n := len(b)
	b = append(b, body...)
	if k == nil {
		sum := checksum(Place{}, b[:n-saltSize], body)
		copy(b[n-saltSize:], sum[:])
		return b
	}
	return newSealing(*k).seal(Place{}, b, n)
}

// frames returns zstd frames of zeros that state their size, do not state it, and state a false one.
func frames(t *testing.T, size int) map[string][]byte {
	t.Helper()
	var stream bytes.Buffer
	w, err := zstd.NewWriter(&stream, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window))
	if err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 1<<16)
	for range size >> 16 {
		if _, err := w.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	whole := compress(make([]byte, size), nil)
	return map[string][]byte{"stated": whole, "not stated": stream.Bytes(), "in parts": bytes.Repeat(compress(zeros, nil), size>>16)}
}

func TestOPS5_ABombIsRefusedWithoutItsMemory(t *testing.T) {
	const most = 64 << 20
	c, err := New(Config{Keys: Keys(Key{ID: "k1", Secret: [32]byte{1}}), MaxSize: most})
	if err != nil {
		t.Fatal(err)
	}
	k := Key{ID: "k1", Secret: [32]byte{1}}
	small, large := frames(t, 1<<20), frames(t, 128<<20)
	tests := map[string]struct {
		frames  map[string][]byte
		size    int
		tooMuch bool // above MaxSize
	}{
		"true size above the limit":  {large, 128 << 20, true},
		"size that is too small":     {large, 1 << 20, false},
		"size that is one too small": {small, 1<<20 - 1, false},
		"size that is one too large": {small, 1<<20 + 1, false},
		"size that is too large":     {small, most, false},
		"size above the limit":       {small, 1 << 40, true},
	}
	for name, tt := range tests {
		for kind, body := range tt.frames {
			for _, k := range []*Key{nil, &k} {
				stored := craft(k, tt.size, body)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, err := c.Open(t.Context(), Place{}, stored)
				runtime.ReadMemStats(&after)
				_, damaged := errors.AsType[*DamagedError](err)
				if _, tooLarge := errors.AsType[*SizeError](err); tooLarge != tt.tooMuch || damaged == tt.tooMuch {
					t.Errorf("%s, %s in the frame, encrypted %v: %v", name, kind, k != nil, err)
				}
				if used := after.TotalAlloc - before.TotalAlloc; used > 24<<20 {
					t.Errorf("%s, %s in the frame, encrypted %v: opening it allocated %d bytes", name, kind, k != nil, used)
				}
			}
		}
	}
}

func TestOPS5_ACompressedPayloadOfAHighRatioIsOpened(t *testing.T) {
	c, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	for kind, body := range frames(t, 4<<20) {
		got, err := c.Open(t.Context(), Place{}, craft(nil, 4<<20, body))
		if err != nil || len(got) != 4<<20 || strings.Trim(string(got), "\x00") != "" {
			t.Errorf("size %s in the frame: %d bytes, %v", kind, len(got), err)
		}
	}
}

func TestOPS5_DamagedFramesAreRefused(t *testing.T) {
	c, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	plain := []byte(strings.Repeat("order 17 of customer 4711, ", 100))
	frame := compress(plain, nil)
	hugeWindow := []byte{0x28, 0xB5, 0x2F, 0xFD, 0, 0xF8, 1, 0, 0}
	for n := range frame {
		for what, body := range map[string][]byte{"truncated": frame[:n+1][:n], "reversed": append(bytes.Clone(frame[n:]), frame[:n]...), "huge window": hugeWindow} {
			if n == 0 && what == "reversed" {
				continue
			}
			if got, err := c.Open(t.Context(), Place{}, craft(nil, len(plain), body)); err == nil && !bytes.Equal(got, plain) {
				t.Errorf("%s at %d: opened as %d bytes", what, n, len(got))
			} else if _, ok := errors.AsType[*DamagedError](err); err != nil && !ok {
				t.Errorf("%s at %d: %v, want a DamagedError", what, n, err)
			}
		}
	}
}

// TestOPS5_ANonceNeverEncryptsTwoBodies proves that another compressed form of the same payload,
// such as one of a newer release, gets another salt.
func TestOPS5_ANonceNeverEncryptsTwoBodies(t *testing.T) {
	k := Key{ID: "k1", Secret: [32]byte{1}}
	plain := make([]byte, 1000)
	salts := map[string]bool{}
	best, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderCRC(true))
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range [][]byte{compress(plain, nil), best.EncodeAll(plain, nil)} {
		s, err := parse(Place{}, craft(&k, len(plain), body))
		if err != nil {
			t.Fatal(err)
		}
		salts[string(s.salt)] = true
	}
	for _, size := range []int{999, 1001} {
		s, err := parse(Place{}, craft(&k, size, compress(plain, nil)))
		if err != nil {
			t.Fatal(err)
		}
		salts[string(s.salt)] = true
	}
	if len(salts) != 4 {
		t.Errorf("four forms of a payload have %d salts", len(salts))
	}
}

// TestOPS5_DifferentPayloadsHaveDifferentSalts proves that a salt depends on each byte of the header,
// the place and the body, and on the boundaries between them.
func TestOPS5_DifferentPayloadsHaveDifferentSalts(t *testing.T) {
	s := newSealing(Key{ID: "k1", Secret: [32]byte{1}})
	salts := map[string]string{}
	add := func(what string, at Place, header, body []byte) {
		t.Helper()
		b := append(append(bytes.Clone(header), make([]byte, saltSize)...), body...)
		for _, room := range []int{0, overhead(at)} { // the salt does not depend on the memory
			sealed := s.seal(at, append(make([]byte, 0, len(b)+room), b...), len(header)+saltSize)
			salt := string(sealed[len(header):][:saltSize])
			if before, ok := salts[salt]; ok && before != what {
				t.Errorf("%s has the salt of %s", what, before)
			}
			salts[salt] = what
		}
	}
	at, header := Place{Owner: "ab\x02", Field: "d"}, []byte{marker, encrypted | compressed, 100}
	body := append(bytes.Repeat([]byte{9}, 40), 3)
	add("the payload", at, header, body)
	add("the body with its last byte in the place", Place{Owner: "\x03ab", Field: "\x01d"}, header, body[:40])
	add("the owner with the first byte of the field", Place{Owner: "ab\x02d"}, header, body)
	add("the field with the last byte of the owner", Place{Owner: "ab", Field: "\x02d"}, header, body)
	for i := range body {
		changed := bytes.Clone(body)
		changed[i] ^= 1
		add(fmt.Sprintf("the body with another byte %d", i), at, header, changed)
		add(fmt.Sprintf("the body cut to %d bytes", i), at, header, body[:i])
	}
	for i := range header {
		changed := bytes.Clone(header)
		changed[i] ^= 4
		add(fmt.Sprintf("the header with another byte %d", i), at, changed, body)
	}
	if want := 1 + 3 + 2*len(body) + len(header); len(salts) != want {
		t.Errorf("%d payloads have %d salts", want, len(salts))
	}
	other := newSealing(Key{ID: "k1", Secret: [32]byte{2}})
	b := append(append(bytes.Clone(header), make([]byte, saltSize)...), body...)
	if salt := other.seal(at, b, len(header)+saltSize)[len(header):][:saltSize]; salts[string(salt)] != "" {
		t.Error("another key has the same salt")
	}
}

// TestOPS5_PayloadKeysAreThoseOfHKDF compares the keys with those of the standard library.
func TestOPS5_PayloadKeysAreThoseOfHKDF(t *testing.T) {
	k := Key{ID: "k1", Secret: [32]byte{1, 2, 3}}
	salt := bytes.Repeat([]byte{7}, saltSize)
	want, err := hkdf.Key(sha256.New, k.Secret[:], nil, payloadInfo+string(salt), 64)
	if err != nil {
		t.Fatal(err)
	}
	state := newSealing(k).states.Get().(*sealingState)
	for range 2 {
		if first, second := state.expand(salt); !bytes.Equal(first, want[:32]) || !bytes.Equal(second, want[32:]) {
			t.Errorf("got %x %x, want %x", first, second, want)
		}
	}
}

// TestOPS5_CompressionIsDeterministic proves that the states of pooled encoders do not change the
// stored form.
func TestOPS5_CompressionIsDeterministic(t *testing.T) {
	var payloads, first [][]byte
	for i := range 40 {
		p := []byte(strings.Repeat(strings.Repeat("abcdefgh"[:i%7+1], i+3)+"xyz", 20*(i+1)*(i%5*30+1)))
		payloads, first = append(payloads, p), append(first, compress(p, nil))
	}
	for round := range 5 {
		for i := range payloads {
			j := (i*7 + round*3) % len(payloads)
			if !bytes.Equal(compress(payloads[j], nil), first[j]) {
				t.Fatalf("round %d: payload %d was compressed differently", round, j)
			}
		}
	}
}
