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
// payload from the secret and this salt. Therefore a key and nonce never encrypt two different
// bodies, and equal payloads at equal places have equal stored forms. The additional data is the
// header with the salt, and the place.
type sealing struct {
	secret [32]byte
	macs   sync.Pool // of hash.Hash
}

const (
	saltInfo    = "flowgen payload salt"
	payloadInfo = "flowgen payload key"
	nonceSize   = 12
)

func newSealing(k Key) *sealing {
	sub := must(hkdf.Key(sha256.New, k.Secret[:], nil, saltInfo, sha256.Size))
	s := &sealing{secret: k.Secret}
	s.macs.New = func() any { return hmac.New(sha256.New, sub) }
	return s
}

// seal encrypts the body in b, which follows the header of n bytes, and sets the salt. The capacity
// of b must suffice for the tag.
func (s *sealing) seal(at Place, b []byte, n int) []byte {
	scratch := getBuffer()
	defer putBuffer(scratch)
	header, body := b[:n], b[n:]
	*scratch = appendPlace((*scratch)[:0], at)
	salt := s.salt(header[:n-saltSize], *scratch, body)
	copy(header[n-saltSize:], salt[:])
	*scratch = appendPlace(append((*scratch)[:0], header...), at)
	aead, nonce := s.aead(salt[:])
	return aead.Seal(header, nonce, body, *scratch)
}

// open appends the decrypted body to to. It returns a reason if it is not authentic.
func (s *sealing) open(at Place, p *sealed, to []byte) (body []byte, reason string) {
	scratch := getBuffer()
	defer putBuffer(scratch)
	*scratch = appendPlace(append((*scratch)[:0], p.header...), at)
	aead, nonce := s.aead(p.salt)
	body, err := aead.Open(to, nonce, p.body, *scratch)
	if err != nil {
		return nil, "it is not authentic: it was altered or moved from another place, or it was sealed with another secret"
	}
	return body, ""
}

func (s *sealing) salt(header, place, body []byte) (salt [saltSize]byte) {
	mac := s.macs.Get().(hash.Hash)
	defer s.macs.Put(mac)
	mac.Reset()
	mac.Write(header)
	mac.Write(place)
	mac.Write(body)
	var sum [sha256.Size]byte
	copy(salt[:], mac.Sum(sum[:0]))
	return salt
}

// aead returns the cipher and the nonce of the payload with a salt.
func (s *sealing) aead(salt []byte) (cipher.AEAD, []byte) {
	derived := must(hkdf.Key(sha256.New, s.secret[:], salt, payloadInfo, len(s.secret)+nonceSize))
	block := must(aes.NewCipher(derived[:len(s.secret)]))
	return must(cipher.NewGCM(block)), derived[len(s.secret):]
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
