package replay

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
)

// Renaming describes a stored object that contains names which the current type lacks, and lacks
// names of the current type. Most likely a parameter or a field was renamed. Decoding the object
// would silently lose the data under the old name. If names were only added or only removed, the
// change is not a renaming.
type Renaming struct {
	Path    string   // path of the object within the value; empty for the value itself
	Unknown []string // stored names that the type lacks, sorted
	Missing []string // names of the type that the stored object lacks, sorted
}

// FindRenaming compares a stored value with the same value as encoded by the current type. It
// returns the first object in which names were renamed, or nil if there is none. A name that the
// current type omits when empty does not count as missing.
func FindRenaming(stored, today []byte) *Renaming {
	var a, b any
	if unmarshal(stored, &a) != nil || unmarshal(today, &b) != nil {
		return nil
	}
	return renaming("", a, b)
}

func renaming(path string, stored, today any) *Renaming {
	switch stored := stored.(type) {
	case []any:
		today, ok := today.([]any)
		for i := 0; ok && i < min(len(stored), len(today)); i++ {
			if r := renaming(fmt.Sprintf("%s[%d]", path, i), stored[i], today[i]); r != nil {
				return r
			}
		}
	case map[string]any:
		if today, ok := today.(map[string]any); ok {
			return renamingOfObject(path, stored, today)
		}
	}
	return nil
}

func renamingOfObject(path string, stored, today map[string]any) *Renaming {
	r := &Renaming{Path: path}
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		if _, ok := nameIn(today, name); !ok {
			r.Unknown = append(r.Unknown, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(today)) {
		if _, ok := nameIn(stored, name); !ok {
			r.Missing = append(r.Missing, name)
		}
	}
	if len(r.Unknown) > 0 && len(r.Missing) > 0 {
		return r
	}
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		if same, ok := nameIn(today, name); ok {
			if r := renaming(strings.TrimPrefix(path+"."+name, "."), stored[name], today[same]); r != nil {
				return r
			}
		}
	}
	return nil
}

// nameIn returns the name in an object that equals name case-insensitively, like encoding/json.
func nameIn(object map[string]any, name string) (string, bool) {
	if _, ok := object[name]; ok {
		return name, true
	}
	for other := range object {
		if strings.EqualFold(other, name) {
			return other, true
		}
	}
	return "", false
}

// String describes which stored names are unknown and which names of the current type are missing.
func (r *Renaming) String() string {
	where := ""
	if r.Path != "" {
		where = " in " + r.Path
	}
	return fmt.Sprintf("it was stored with %s%s, which the current code does not have, and without %s, which it requires",
		quoted(r.Unknown), where, quoted(r.Missing))
}

// Fix describes how to keep an old name. directive is the directive of the function that has the
// parameters. It is empty if the names are fields.
func (r *Renaming) Fix(directive string) string {
	was, is := r.Unknown[0], r.Missing[0]
	keep := fmt.Sprintf("tag the field with `json:%q`", was)
	if r.Path == "" && directive != "" {
		keep = fmt.Sprintf("write wire=%s:%s on its %s", is, was, directive)
	}
	return fmt.Sprintf("If %s is the new name of %s, keep the stored one: %s. If the two have nothing to do with each other, keep %s until no such run is left",
		is, was, keep, was)
}

func quoted(names []string) string {
	all := make([]string, len(names))
	for i, name := range names {
		b, _ := json.Marshal(name) // encoding a string cannot fail
		all[i] = string(b)
	}
	return strings.Join(all, ", ")
}

// RenamedError is the error of a stored value that cannot be decoded without losing data under a
// removed name. The run is blocked and not failed, as after a [MismatchError].
type RenamedError struct {
	Run       event.RunID
	What      string // description of the value, for example "input of workflow bank.order"
	Directive string // directive of the function that takes the value; empty for a struct
	Renaming
}

// Error names the value, the renamed names and how to fix the error.
func (e *RenamedError) Error() string {
	return fmt.Sprintf("run %s does not fit this code: the %s lost a name: %s. %s; "+
		untilMatching, e.Run, e.What, &e.Renaming, e.Fix(e.Directive))
}

// Renamed records that a request differs from the recorded event because a name was changed. It is
// called by the function that compares the two.
func (b *Branch) Renamed(r *Renaming) { b.run.renamed = r }
