package rates

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Partition is the partition in whose session a worker publishes its report.
const Partition = 0

// otherSize is the part of an encoded report that is reserved for the entry without a name and for
// the numbers of runs, in bytes. The entry has at most one pair of numbers for each bucket.
const otherSize = buckets*len("120,4294967295,") + 256

// Report contains the figures of one worker for the last minute.
type Report struct {
	Over           time.Duration         // time that the figures cover
	Started, Ended int                   // numbers of runs
	steps          map[string]*histogram // "" contains the steps that have no entry
}

// add adds the latencies of a step.
func (r *Report) add(step string, h *histogram) {
	if h.count() == 0 {
		return
	}
	if r.steps == nil {
		r.steps = map[string]*histogram{}
	}
	if there := r.steps[step]; there != nil {
		there.merge(h)
		return
	}
	r.steps[step] = h
}

// encoded is the JSON form of a report. Decoders ignore unknown fields.
type encoded struct {
	Ms      int64             `json:"ms"`
	Started int               `json:"started,omitempty"`
	Ended   int               `json:"ended,omitempty"`
	Steps   []json.RawMessage `json:"steps,omitempty"` // each an encodedStep
}

type encodedStep struct {
	Step string   `json:"step,omitempty"`
	H    []uint32 `json:"h"` // pairs of the number of a bucket and its count
}

// Encode returns the figures of the last minute in at most the given number of bytes, which must be
// at least 4 KiB. It returns nil if there were no runs and no steps.
func (m *Meter) Encode(most int) []byte { return m.report().encode(most) }

func (r *Report) encode(most int) []byte {
	if r.Started+r.Ended+len(r.steps) == 0 {
		return nil
	}
	type counted struct {
		name string
		n    int
	}
	var names []counted
	other := &histogram{}
	for name, h := range r.steps {
		if name == "" {
			other.merge(h)
			continue
		}
		names = append(names, counted{name, h.count()})
	}
	slices.SortFunc(names, func(a, b counted) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.name, b.name)) })
	out := encoded{Ms: r.Over.Milliseconds(), Started: r.Started, Ended: r.Ended}
	left := most - otherSize
	for _, one := range names {
		h := r.steps[one.name]
		step := encodeStep(one.name, h)
		if left -= len(step) + 1; left < 0 {
			other.merge(h)
			continue
		}
		out.Steps = append(out.Steps, step)
	}
	if other.count() > 0 {
		out.Steps = append(out.Steps, encodeStep("", other))
	}
	body, _ := json.Marshal(out) // the encoding cannot fail
	return body
}

func encodeStep(name string, h *histogram) json.RawMessage {
	e := encodedStep{Step: name, H: []uint32{}}
	for k, n := range h {
		if n > 0 {
			e.H = append(e.H, uint32(k), n)
		}
	}
	body, _ := json.Marshal(e) // the encoding cannot fail
	return body
}

// Decode decodes an encoded report. It returns an error if the report is damaged or has a scale that
// this release does not know.
func Decode(body []byte) (*Report, error) {
	var in encoded
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, fmt.Errorf("decode rates: %w", err)
	}
	r := &Report{Over: time.Duration(in.Ms) * time.Millisecond, Started: in.Started, Ended: in.Ended}
	if r.Over <= 0 || r.Started < 0 || r.Ended < 0 {
		return nil, fmt.Errorf("decode rates: %d runs started and %d ended in %v", r.Started, r.Ended, r.Over)
	}
	for _, one := range in.Steps {
		var e encodedStep
		if err := json.Unmarshal(one, &e); err != nil {
			return nil, fmt.Errorf("decode rates: %w", err)
		}
		h := &histogram{}
		for i := 0; i+1 < len(e.H); i += 2 {
			if e.H[i] >= buckets {
				return nil, fmt.Errorf("decode rates: bucket %d of step %q, want less than %d", e.H[i], e.Step, buckets)
			}
			h[e.H[i]] += e.H[i+1]
		}
		r.add(e.Step, h)
	}
	return r, nil
}
