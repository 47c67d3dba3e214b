package event

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// SealedMark is the first byte of user data that a codec has sealed. Neither JSON nor UTF-8 text can
// begin with it.
const SealedMark = 0xF8

// Flags in the second byte of sealed data.
const (
	SealedEncrypted  = 1 << 0
	SealedCompressed = 1 << 1
	SealedOffloaded  = 1 << 2
	sealedKnown      = SealedEncrypted | SealedCompressed | SealedOffloaded
)

// IsSealed reports whether a codec has sealed the data.
func IsSealed[T ~string | ~[]byte](data T) bool { return len(data) > 0 && data[0] == SealedMark }

// Sealed describes sealed data. No key is required to read it.
type Sealed struct {
	Flags byte
	Key   string // ID of the key; empty: the data are not encrypted
	Size  int64  // size of the user data in bytes
	// Blob is the SHA-256 of the blob that contains the data, in hexadecimal. It is empty if the
	// sealed form contains the data.
	Blob string
}

// saltSize is the size of the salt or checksum that follows the description.
const saltSize = 16

// ReadSealed returns the description of sealed data. The description consists of the mark, the
// flags, the size as a varint and, if the data are encrypted, the ID of the key, preceded by its
// length. Errors match
// [ErrCorrupt], or are a [*VersionError] for flags of a newer release.
func ReadSealed(data []byte) (Sealed, error) {
	if len(data) < 2 || data[0] != SealedMark {
		return Sealed{}, fmt.Errorf("it does not begin as sealed data: %w", ErrCorrupt)
	}
	s := Sealed{Flags: data[1]}
	if s.Flags&^sealedKnown != 0 {
		return Sealed{}, &VersionError{Got: SealedVersion, Known: SealedVersion, Type: int(s.Flags)}
	}
	r := reader{b: data[2:]}
	size := r.uvarint()
	if s.Flags&SealedEncrypted != 0 {
		s.Key = string(r.bytes())
	}
	if r.bad || size > 1<<62 || s.Key == "" && s.Flags&SealedEncrypted != 0 {
		return Sealed{}, fmt.Errorf("the description of sealed data is cut short or wrong: %w", ErrCorrupt)
	}
	s.Size = int64(size)
	if s.Flags&SealedOffloaded != 0 {
		if len(r.b) < saltSize+sha256.Size {
			return Sealed{}, fmt.Errorf("the name of the blob of sealed data is cut short: %w", ErrCorrupt)
		}
		s.Blob = hex.EncodeToString(r.b[saltSize:][:sha256.Size])
	}
	return s, nil
}

// SealedError reports that user data are sealed and that the program cannot open them.
type SealedError struct {
	Key  string // ID of the key; empty: the data are not encrypted
	Size int64  // size of the user data in bytes
}

// Error returns a text that names the key and the fix.
func (e *SealedError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("sealed, %d B: set ClientConfig.Codec to the codec that has sealed the data", e.Size)
	}
	return fmt.Sprintf("sealed, key %s, %d B: set ClientConfig.Codec to a codec with key %s", e.Key, e.Size, e.Key)
}

// Permanent returns true, because waiting does not help.
func (e *SealedError) Permanent() bool { return true }

// CheckOpen returns a [*SealedError] if data are sealed, and nil otherwise.
func CheckOpen[T ~string | ~[]byte](data T) error {
	if !IsSealed(data) {
		return nil
	}
	s, err := ReadSealed([]byte(data))
	if err != nil {
		return err
	}
	return &SealedError{Key: s.Key, Size: s.Size}
}

// CheckOpen returns a [*SealedError] if user data of the event that code receives are sealed.
func (e *Event) CheckOpen() error {
	if err := CheckOpen(e.Payload); err != nil {
		return err
	}
	if f := e.Failure; f != nil {
		return CheckOpen(f.Message)
	}
	return nil
}

// sealedField is the name of the only field of the JSON form of sealed data.
const sealedField = "flowgen.sealed"

// ShownSealed is the JSON form of sealed data for people and for programs that can open them.
type ShownSealed struct {
	Key  string `json:"key,omitempty"` // ID of the key; omitted if the data are not encrypted
	Size int64  `json:"size"`          // size of the user data in bytes
	Data []byte `json:"data"`          // the sealed data
}

// Shown returns data that can be shown as JSON: data itself if it is not sealed, and otherwise an
// object {"flowgen.sealed": …} with a [ShownSealed].
func Shown(data json.RawMessage) json.RawMessage {
	if !IsSealed(data) {
		return data
	}
	shown := ShownSealed{Data: data}
	if s, err := ReadSealed(data); err == nil {
		shown.Key, shown.Size = s.Key, s.Size
	}
	b, _ := json.Marshal(map[string]ShownSealed{sealedField: shown}) // encoding strings and numbers cannot fail
	return b
}

// SealedData returns the sealed data in JSON that Shown has made.
func SealedData(shown json.RawMessage) (data []byte, ok bool) {
	if !bytes.Contains(shown[:min(len(shown), 64)], []byte(`"`+sealedField+`"`)) { // most payloads are not decoded
		return nil, false
	}
	var is map[string]*ShownSealed
	if json.Unmarshal(shown, &is) != nil || len(is) != 1 || is[sealedField] == nil {
		return nil, false
	}
	return is[sealedField].Data, IsSealed(is[sealedField].Data)
}

// ShownText returns text that can be shown: the text itself if it is not sealed, and otherwise
// "sealed, key K, N B: DATA" with the sealed data in base64.
func ShownText(text string) string {
	if !IsSealed(text) {
		return text
	}
	var b strings.Builder
	b.WriteString("sealed")
	if s, err := ReadSealed([]byte(text)); err == nil {
		if s.Key != "" {
			b.WriteString(", key " + s.Key)
		}
		fmt.Fprintf(&b, ", %d B", s.Size)
	}
	b.WriteString(": ")
	b.WriteString(base64.StdEncoding.EncodeToString([]byte(text)))
	return b.String()
}

// SealedText returns the sealed data in a text that ShownText has made.
func SealedText(text string) (data []byte, ok bool) {
	if !strings.HasPrefix(text, "sealed") {
		return nil, false
	}
	data, err := base64.StdEncoding.DecodeString(text[strings.LastIndexByte(text, ' ')+1:])
	return data, err == nil && IsSealed(data)
}

// Shown returns the failure with its sealed fields in a form that can be shown.
func (f *Failure) Shown() *Failure {
	if f == nil {
		return nil
	}
	shown := *f
	shown.Message, shown.Data, shown.Stack, shown.Causes = ShownText(f.Message), Shown(f.Data), ShownText(f.Stack), nil
	for _, cause := range f.Causes {
		shown.Causes = append(shown.Causes, cause.Shown())
	}
	return &shown
}
