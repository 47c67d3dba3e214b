package codec

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"
)

// ciphers caches what is derived from keys. The zero value is empty.
type ciphers struct{ byID sync.Map } // of *sealing

// of returns the derived state of a key. A key with a changed secret replaces the previous one.
func (c *ciphers) of(k Key) *sealing {
	if v, ok := c.byID.Load(k.ID); ok && v.(*sealing).secret == k.Secret {
		return v.(*sealing)
	}
	s := newSealing(k)
	c.byID.Store(k.ID, s)
	return s
}

// sealing encrypts payloads with one key.
//
// The salt of a payload is a pseudorandom function of the header, the place and the body before its
// encryption: GHASH under one subkey, encrypted by AES under another. HKDF-SHA256 derives the key and
// the nonce of the payload from the secret, with this salt in its info. Therefore equal payloads at
// equal places have equal stored forms, and different ones have different keys and nonces. The
// additional data is the header with the salt, and the place.
//
// Opening a payload does not compute its salt, so that another function would not change the format.
// It must be a pseudorandom function that has few collisions:
//   - GHASH evaluates a polynomial, whose coefficients are the blocks of the message, at a secret
//     point. Two messages of at most n blocks of 16 bytes collide at no more than n+1 of 2^128 points.
//     AES is a permutation and adds no collisions. Of q payloads, any two have the same salt with a
//     probability of at most q²(n+1)/2^129. This is less than 2^-42 for 2^40 payloads of 1 KiB.
//   - Hash values, which would reveal the point, do not leave setSalt. AES under an independent key
//     hides them: its results for different values cannot be distinguished from random blocks.
type sealing struct {
	secret [32]byte
	hash   cipher.AEAD  // GMAC: GHASH plus a constant
	hide   cipher.Block // encrypts hash values
	states sync.Pool    // of *sealingState
}

// sealingState is the state for the conversion of payloads. It is reused.
type sealingState struct {
	keys     hash.Hash // HMAC of HKDF-Expand
	derived  [2 * sha256.Size]byte
	text     []byte          // additional data
	sum      [tagSize]byte   // hash value
	constant [nonceSize]byte // nonce of GMAC
	info     []byte          // of HKDF-Expand, and the counter
}

const (
	saltInfo    = "flowgen payload salt and hash"
	payloadInfo = "flowgen payload key"
	nonceSize   = 12
)

func newSealing(k Key) *sealing {
	root := must(hkdf.Extract(sha256.New, k.Secret[:], nil))
	sub := must(hkdf.Expand(sha256.New, root, saltInfo, 64))
	s := &sealing{
		secret: k.Secret,
		hash:   must(cipher.NewGCM(must(aes.NewCipher(sub[:32])))),
		hide:   must(aes.NewCipher(sub[32:])),
	}
	s.states.New = func() any { return &sealingState{keys: hmac.New(sha256.New, root)} }
	return s
}

// seal encrypts the body in b, which follows the header of n bytes, and sets the salt. It uses the
// capacity of b, which should suffice for overhead(at) bytes.
func (s *sealing) seal(at Place, b []byte, n int) []byte {
	state := s.states.Get().(*sealingState)
	defer s.states.Put(state)
	b = s.setSalt(state, at, b, n)
	header, body := b[:n], b[n:]
	state.text = appendPlace(append(state.text[:0], header...), at)
	aead, nonce := state.aead(header[n-saltSize:])
	return aead.Seal(header, nonce, body, state.text)
}

// setSalt sets the salt in b, a header of n bytes and a body. The hashed message is the header with
// zeros as the salt, the body, the place and the size of the body. Different payloads have different
// messages, because the header and the place contain the lengths of their variable parts.
func (s *sealing) setSalt(state *sealingState, at Place, b []byte, n int) []byte {
	clear(b[n-saltSize : n])
	message := binary.LittleEndian.AppendUint64(appendPlace(b, at), uint64(len(b)-n))
	b = message[:len(b)]
	s.hash.Seal(state.sum[:0], state.constant[:], nil, message)
	s.hide.Encrypt(b[n-saltSize:n], state.sum[:])
	return b
}

// overhead is the number of bytes after a body that its place or its tag needs while it is sealed.
func overhead(at Place) int { return max(tagSize, 2*maxNumber+len(at.Owner)+len(at.Field)+8) }

// open appends the decrypted body to to. It returns a reason if it is not authentic.
func (s *sealing) open(at Place, p *sealed, to []byte) (body []byte, reason string) {
	state := s.states.Get().(*sealingState)
	defer s.states.Put(state)
	state.text = appendPlace(append(state.text[:0], p.header...), at)
	aead, nonce := state.aead(p.salt)
	body, err := aead.Open(to, nonce, p.body, state.text)
	if err != nil {
		return nil, "it is not authentic: it was altered or moved from another place, or it was sealed with another secret"
	}
	return body, ""
}

// aead returns the cipher and the nonce of the payload with a salt.
func (s *sealingState) aead(salt []byte) (cipher.AEAD, []byte) {
	key, rest := s.expand(salt)
	return must(cipher.NewGCM(must(aes.NewCipher(key)))), rest[:nonceSize]
}

// expand returns the two blocks of HKDF-Expand (RFC 5869) with the info of the payload. Function
// hkdf.Expand would compute the state of HMAC for each payload.
func (s *sealingState) expand(salt []byte) (first, second []byte) {
	const size = sha256.Size
	s.info = append(append(append(s.info[:0], payloadInfo...), salt...), 0)
	for i := range 2 {
		s.info[len(s.info)-1]++
		s.keys.Reset()
		s.keys.Write(s.derived[:i*size])
		s.keys.Write(s.info)
		s.keys.Sum(s.derived[:i*size])
	}
	return s.derived[:size], s.derived[size:]
}

// checksum is the salt of a payload that is not encrypted.
func checksum(at Place, header, body []byte) (sum [saltSize]byte) {
	scratch := getBuffer()
	defer putBuffer(scratch)
	*scratch = appendPlace(append((*scratch)[:0], header...), at)
	h := sha256.New()
	h.Write(*scratch)
	h.Write(body)
	var full [sha256.Size]byte
	copy(sum[:], h.Sum(full[:0]))
	return sum
}

// must returns v. The functions of this file fail only if lengths are wrong, which are constants.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
