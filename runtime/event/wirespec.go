package event

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

func appendSpec(b []byte, s *Spec) []byte {
	b = appendBytes(b, 1, s.Workflow)
	b = appendBytes(b, 2, s.Queue)
	b = appendBytes(b, 3, s.WorkflowID)
	b = appendMap(b, 4, s.Tags)
	b = appendInt(b, 5, int64(s.Timeout))
	b = appendInt(b, 6, int64(s.Retention))
	b = appendBytes(b, 7, s.Parent)
	b = appendBytes(b, 8, s.ParentKey)
	b = appendBytes(b, 9, s.Root)
	b = appendInt(b, 10, int64(s.Depth))
	b = appendBytes(b, 11, s.RerunOf)
	b = appendBytes(b, 12, s.ContinuedOf)
	b = appendMap(b, 13, s.Attributes)
	b = appendInt(b, 14, int64(s.Priority))
	b = appendTime(b, 15, s.StartAt, 0)
	b = appendInt(b, 16, int64(s.Hold))
	if s.Debug {
		b = appendInt(b, 17, 1)
	}
	b = appendInt(b, 18, int64(s.Kept))
	b = appendBytes(b, 19, s.Seed)
	b = appendUses(b, 20, s.Uses)
	if s.Whole {
		b = appendInt(b, 21, 1)
	}
	b = appendUses(b, 22, s.Held)
	b = appendInt(b, 23, int64(s.StartWithin))
	b = appendInt(b, 24, int64(s.Collect))
	b = appendBytes(b, 25, s.Fair)
	b = appendInt(b, 26, int64(s.Share))
	b = appendInt(b, 27, int64(s.Reruns))
	b = appendInt(b, 30, int64(s.PermitSlot))
	b = appendBytes(b, 31, s.Build)
	return appendBytes(b, 32, s.Pin)
}

func appendUses(b []byte, field int, uses []Use) []byte {
	for _, u := range uses {
		b = appendNested(b, field, func(b []byte) []byte {
			b = appendInt(appendBytes(appendBytes(b, 1, u.Limit), 2, u.Key), 3, int64(u.Weight))
			if u.Local {
				b = appendInt(b, 4, 1)
			}
			return b
		})
	}
	return b
}

func decodeUse(b []byte) (u Use, ok bool) {
	r := reader{b: b}
	for r.next() {
		switch r.field {
		case 1:
			u.Limit = string(r.val)
		case 2:
			u.Key = string(r.val)
		case 3:
			u.Weight = int(r.small(maxSmall))
		case 4:
			u.Local = r.num != 0
		}
	}
	return u, !r.bad
}

func decodeSpec(b []byte) (*Spec, error) {
	s := &Spec{}
	r := reader{b: b}
	for r.next() {
		switch r.field {
		case 1:
			s.Workflow = string(r.val)
		case 2:
			s.Queue = string(r.val)
		case 3:
			s.WorkflowID = string(r.val)
		case 4:
			s.Tags = r.addPair(s.Tags)
		case 5:
			s.Timeout = time.Duration(r.num)
		case 6:
			s.Retention = time.Duration(r.num)
		case 13:
			s.Attributes = r.addPair(s.Attributes)
		case 14:
			s.Priority = int(r.num)
		case 15:
			s.StartAt = r.time(0)
		case 16:
			s.Hold = time.Duration(r.num)
		case 17:
			s.Debug = r.num != 0
		case 23:
			s.StartWithin = time.Duration(r.num)
		case 24:
			s.Collect = Collect(r.small(math.MaxUint8))
		case 7, 8, 9, 10, 11, 12, 18, 19, 27, 31, 32:
			s.decodeOrigin(&r)
		case 20, 21, 22, 25, 26, 30:
			s.decodeLimits(&r)
		}
	}
	if r.bad {
		return nil, fmt.Errorf("spec is cut short, or a number is out of range: %w", ErrCorrupt)
	}
	return s, nil
}

// decodeOrigin decodes a field about the program or the parent that has created a run, or about the
// run that it continues or repeats.
func (s *Spec) decodeOrigin(r *reader) {
	switch r.field {
	case 7:
		s.Parent = RunID(r.val)
	case 8:
		s.ParentKey = string(r.val)
	case 9:
		s.Root = RunID(r.val)
	case 10:
		s.Depth = int(r.small(maxSmall))
	case 11:
		s.RerunOf = RunID(r.val)
	case 12:
		s.ContinuedOf = RunID(r.val)
	case 18:
		s.Kept = int(r.num)
	case 19:
		s.Seed = RunID(r.val)
	case 27:
		s.Reruns = int(r.small(maxSmall))
	case 31:
		s.Build = string(r.val)
	case 32:
		s.Pin = string(r.val)
	}
}

// decodeLimits decodes a field about the limits or the fairness key of a run.
func (s *Spec) decodeLimits(r *reader) {
	switch r.field {
	case 20, 22:
		u, ok := decodeUse(r.val)
		r.bad = r.bad || !ok
		if r.field == 20 {
			s.Uses = append(s.Uses, u)
		} else {
			s.Held = append(s.Held, u)
		}
	case 21:
		s.Whole = r.num != 0
	case 25:
		s.Fair = string(r.val)
	case 26:
		s.Share = int(r.small(maxSmall))
	case 30:
		s.PermitSlot = int(r.small(maxSmall))
	}
}

// appendMap appends the pairs sorted by key, so that equal maps have the same encoding.
func appendMap(b []byte, field int, m map[string]string) []byte {
	if len(m) == 0 {
		return b
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		b = appendNested(b, field, func(b []byte) []byte { return appendBytes(appendBytes(b, 1, k), 2, m[k]) })
	}
	return b
}
