package engine

import (
	"encoding/json"
	"hash/fnv"
	"strings"
)

// MismatchKey is the key of the step data in which a worker keeps the difference between the log
// and the code, in addition to the text under BlockedKey. Older releases write only the text.
const MismatchKey = "flowgen.mismatch"

// maxMismatchDiff bounds Mismatch.Diff, in bytes.
const maxMismatchDiff = 16 << 10

// Mismatch describes what the log of a blocked run contains, and what the code requests instead.
type Mismatch struct {
	Event    uint64 `json:"event"`              // number of the recorded event
	Recorded string `json:"recorded"`           // the recorded operation
	Asked    string `json:"asked,omitempty"`    // the operation that the code requests; empty: none
	Position string `json:"position,omitempty"` // position of the call, as file:line; empty: there is none
	Diff     string `json:"diff,omitempty"`     // if only their contents differ: - recorded, + requested
	Build    string `json:"build,omitempty"`    // build that recorded it
	Here     string `json:"here,omitempty"`     // build that does not match
	Of       uint64 `json:"of"`                 // hash of the text that it belongs to, because a later text may have another reason
}

// Encode returns the data to keep with the text why the run is blocked.
func (m Mismatch) Encode(why string) []byte {
	if len(m.Diff) > maxMismatchDiff {
		m.Diff = strings.ToValidUTF8(m.Diff[:maxMismatchDiff], "") + "\n…"
	}
	m.Of = sumOf(why)
	data, err := json.Marshal(m)
	if err != nil {
		panic(err) // text and numbers always encode
	}
	return data
}

// DecodeMismatch decodes the data kept with the text why. It returns nil if there is none, or if it
// belongs to another text.
func DecodeMismatch(data []byte, why string) *Mismatch {
	m := &Mismatch{}
	if len(data) == 0 || json.Unmarshal(data, m) != nil || m.Of != sumOf(why) {
		return nil
	}
	return m
}

func sumOf(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails
	return h.Sum64() >> 11       // 53 bits, which every JSON decoder keeps
}
