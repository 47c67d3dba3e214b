package engine

import (
	"encoding/json"
	"hash/fnv"
	"strings"
)

// MismatchKey is the key of the step data in which a worker keeps, beside the text under BlockedKey, what the log has and what its
// code asks for. Releases before it write only the text.
const MismatchKey = "flowgen.mismatch"

// maxMismatchDiff bounds Mismatch.Diff, in bytes.
const maxMismatchDiff = 16 << 10

// Mismatch says what the log of a blocked run has, and what the code asks for instead.
type Mismatch struct {
	Event    uint64 `json:"event"`              // number of the recorded one
	Recorded string `json:"recorded"`           // what the log has
	Asked    string `json:"asked,omitempty"`    // what the code asks for; empty: nothing
	Position string `json:"position,omitempty"` // of the call, as file:line; empty: there is none
	Diff     string `json:"diff,omitempty"`     // between the two, if only their contents differ: - recorded, + asked for
	Build    string `json:"build,omitempty"`    // of the code that recorded it
	Here     string `json:"here,omitempty"`     // of the code that does not fit
	Of       uint64 `json:"of"`                 // sum of the text that it belongs to: a later one may be about something else
}

// Encode returns what is kept beside a text that says why the run is blocked.
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

// DecodeMismatch returns what is kept beside a text; nil: nothing, or it belongs to another one.
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
	return h.Sum64() >> 11       // which every reader of JSON keeps
}
