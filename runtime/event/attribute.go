package event

import "maps"

// The attributes that the runtime sets.
const (
	AttributeBuild     = "build"     // build of the program that has created the run
	AttributePrincipal = "principal" // name of the person or system for which the run was started or the item was sent
)

// Origin returns a new map with the attributes of the run and its build. It returns nil if there are
// none.
func (s *Spec) Origin() map[string]string { return with(s.Attributes, AttributeBuild, s.Build) }

// Origin returns a new map with the attributes of a received message, payload or question, and the
// name for which a client has sent it. It returns nil if there are none.
func (e *Event) Origin() map[string]string { return with(e.Attributes, AttributePrincipal, e.By) }

// with returns a copy of pairs, with another pair if value is not empty.
func with(pairs map[string]string, key, value string) map[string]string {
	if value == "" {
		return maps.Clone(pairs)
	}
	all := make(map[string]string, len(pairs)+1)
	maps.Copy(all, pairs)
	all[key] = value
	return all
}
