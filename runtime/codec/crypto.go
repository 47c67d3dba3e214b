package codec

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
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
// The salt of a payload is the beginning of HMAC-SHA256, under a subkey for salts, over the header,
// the place and the body before its encryption. HKDF-SHA256 derives the key and the nonce of the
// payload from the secret, with this salt in its info. Therefore a key and nonce never encrypt two
// different bodies, and equal payloads at equal places have equal stored forms. The additional data
// is the header with the salt, and the place.
type sealing struct {
	secret [32]byte
	states sync.Pool // of *sealingState
}

// sealingState is the state for the conversion of payloads. It is reused.
type sealingState struct {
	salts, keys hash.Hash // HMAC under the subkey for salts, and the one of HKDF-Expand
	derived     [2 * sha256.Size]byte
	text        []byte // place or additional data
	info        []byte // of HKDF-Expand, and the counter
}

const (
	saltInfo    = "flowgen payload salt"
	payloadInfo = "flowgen payload key"
	nonceSize   = 12
)

func newSealing(k Key) *sealing {
	root := must(hkdf.Extract(sha256.New, k.Secret[:], nil))
	sub := must(hkdf.Expand(sha256.New, root, saltInfo, sha256.Size))
	s := &sealing{secret: k.Secret}
	s.states.New = func() any {
		return &sealingState{salts: hmac.New(sha256.New, sub), keys: hmac.New(sha256.New, root)}
	}
	return s
}

// seal encrypts the body in b, which follows the header of n bytes, and sets the salt. The capacity
// of b must suffice for the tag.
func (s *sealing) seal(at Place, b []byte, n int) []byte {
	state := s.states.Get().(*sealingState)
	defer s.states.Put(state)
	header, body := b[:n], b[n:]
	state.text = appendPlace(state.text[:0], at)
	copy(header[n-saltSize:], state.salt(header[:n-saltSize], body))
	state.text = appendPlace(append(state.text[:0], header...), at)
	aead, nonce := state.aead(header[n-saltSize:])
	return aead.Seal(header, nonce, body, state.text)
}

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

// salt returns the salt of a payload, whose place is in s.text.
func (s *sealingState) salt(header, body []byte) []byte {
	s.salts.Reset()
	s.salts.Write(header)
	s.salts.Write(s.text)
	s.salts.Write(body)
	return s.salts.Sum(s.derived[:0])[:saltSize]
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
