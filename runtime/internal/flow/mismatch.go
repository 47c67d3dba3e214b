package flow

import (
	"encoding/json"
	"hash/fnv"
	"strings"
)

// BlockedKey is the key of the step data that contains the reason for which a run is blocked.
const BlockedKey = "flowgen.blocked"

// MismatchKey is the key of the step data that contains the difference between the log and the code
// of a blocked run. The worker writes it in addition to the text under BlockedKey. Older releases
// write only the text.
const MismatchKey = "flowgen.mismatch"

// maxMismatchDiff bounds Mismatch.Diff, in bytes.
const maxMismatchDiff = 16 << 10

// Mismatch describes the difference between the log of a blocked run and the requests of its code.
type Mismatch struct {
	Event    uint64 `json:"event"`              // number of the recorded event
	Recorded string `json:"recorded"`           // the recorded operation
	Asked    string `json:"asked,omitempty"`    // the operation that the code requests; empty if it requests none
	Position string `json:"position,omitempty"` // position of the call, as file:line; empty if it is unknown
	Diff     string `json:"diff,omitempty"`     // difference of the contents, as lines with - (recorded) and + (requested); set only if nothing else differs
	Build    string `json:"build,omitempty"`    // build that recorded the operation
	Here     string `json:"here,omitempty"`     // build whose code does not match
	Of       uint64 `json:"of"`                 // hash of the text under BlockedKey; a later text may have another reason
}

// Encode returns the stored form. why is the text under BlockedKey.
func (m Mismatch) Encode(why string) []byte {
	if len(m.Diff) > maxMismatchDiff {
		m.Diff = strings.ToValidUTF8(m.Diff[:maxMismatchDiff], "") + "\n…"
	}
	m.Of = sumOf(why)
	data, err := json.Marshal(m)
	if err != nil {
		panic(err) // encoding text and numbers cannot fail
	}
	return data
}

// DecodeMismatch decodes stored data. It returns nil if there is none, or if the data belongs to a
// text other than why.
func DecodeMismatch(data []byte, why string) *Mismatch {
	m := &Mismatch{}
	if len(data) == 0 || json.Unmarshal(data, m) != nil || m.Of != sumOf(why) {
		return nil
	}
	return m
}

func sumOf(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // writing to a hash never fails
	return h.Sum64() >> 11       // 53 bits, which every JSON decoder represents exactly
}
