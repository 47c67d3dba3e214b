package flow

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// The limits of the attributes of a request. MaxAttributeKey and MaxAttributeValue are in bytes.
const (
	MaxAttributes     = 32
	MaxAttributeKey   = 128
	MaxAttributeValue = 1 << 10
)

type attributesKey struct{}

// WithAttribute is the implementation of workflow.WithAttribute.
func WithAttribute(ctx context.Context, key, value string) context.Context {
	before := contextAttributes(ctx)
	if _, has := before[key]; !has && len(before) > MaxAttributes {
		return ctx // one more than the limit makes each operation fail; further ones need not be kept
	}
	all := make(map[string]string, len(before)+1)
	maps.Copy(all, before)
	all[key] = value
	return context.WithValue(ctx, attributesKey{}, all)
}

func contextAttributes(ctx context.Context) map[string]string {
	all, _ := ctx.Value(attributesKey{}).(map[string]string)
	return all
}

// optionalAttribute is an attribute that is omitted if it is not valid or if there is no room for it.
type optionalAttribute struct {
	key, value string
	omitted    func()
	before     *optionalAttribute
}

type optionalKey struct{}

// WithOptionalAttribute is the implementation of workflow.WithOptionalAttribute.
func WithOptionalAttribute(ctx context.Context, key, value string, omitted func()) context.Context {
	before, _ := ctx.Value(optionalKey{}).(*optionalAttribute)
	return context.WithValue(ctx, optionalKey{}, &optionalAttribute{key, value, omitted, before})
}

// Attributes returns the attributes set by WithAttribute and WithOptionalAttribute, which must not be
// changed. The error is a *store.InvalidError if one of the former is not valid.
func Attributes(ctx context.Context) (map[string]string, error) {
	all, err := requiredAttributes(ctx)
	last, _ := ctx.Value(optionalKey{}).(*optionalAttribute)
	if err != nil || last == nil {
		return all, err
	}
	with := maps.Clone(all)
	if with == nil {
		with = map[string]string{}
	}
	last.addTo(with)
	return with, nil
}

// addTo adds the attributes in the order in which they were set.
func (o *optionalAttribute) addTo(all map[string]string) {
	if o.before != nil {
		o.before.addTo(all)
	}
	_, has := all[o.key]
	if !has && len(all) >= MaxAttributes || checkAttribute(o.key, o.value) != nil {
		if o.omitted != nil {
			o.omitted()
		}
		return
	}
	all[o.key] = o.value
}

func requiredAttributes(ctx context.Context) (map[string]string, error) {
	all := contextAttributes(ctx)
	if len(all) == 0 {
		return nil, nil
	}
	keys := slices.Sorted(maps.Keys(all)) // sorted, so that the error does not vary
	if len(all) > MaxAttributes {
		return nil, &store.InvalidError{What: "attribute", Value: keys[MaxAttributes], Reason: fmt.Sprintf("is one of more than %d: set fewer, or put them into one value", MaxAttributes)}
	}
	for _, key := range keys {
		if err := checkAttribute(key, all[key]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func checkAttribute(key, value string) error {
	const what = "key of an attribute"
	switch {
	case key == "":
		return &store.InvalidError{What: what, Value: key, Reason: fmt.Sprintf("is empty: want 1 to %d bytes", MaxAttributeKey)}
	case key == event.AttributeBuild, key == event.AttributePrincipal, event.Reserved(key):
		return &store.InvalidError{What: what, Value: key, Reason: "is set by the runtime: use another key, and workflow.OnBehalfOf for the principal"}
	}
	if err := store.CheckText(what, key, MaxAttributeKey); err != nil {
		return err
	}
	return store.CheckText("value of attribute "+key, value, MaxAttributeValue)
}

// RunAttributes returns the attributes of a run that a request with this context starts: those set
// by WithAttribute, and the name set by OnBehalfOf. The result must not be changed.
func RunAttributes(ctx context.Context) (map[string]string, error) {
	all, err := Attributes(ctx)
	by := Behalf(ctx)
	if err != nil || by == "" {
		return all, err
	}
	with := make(map[string]string, len(all)+1)
	maps.Copy(with, all)
	with[event.AttributePrincipal] = by
	return with, nil
}

// buildLength is the number of characters of a build.
const buildLength = 12

// Revision returns the beginning of the hash of the commit from which the program was built. It
// returns "" if the program does not contain the hash, or if files were changed since the commit.
func Revision() string { return revision() }

var revision = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return revisionOf(info.Settings)
})

func revisionOf(settings []debug.BuildSetting) (revision string) {
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value != "false":
			return ""
		}
	}
	if len(revision) < buildLength {
		return ""
	}
	return strings.Clone(revision[:buildLength])
}

// ProgramBuild identifies the running program if no worker does. It is the Revision, or otherwise
// the beginning of a hash of the executable.
func ProgramBuild() string { return programBuild() }

var programBuild = sync.OnceValue(func() string {
	if r := Revision(); r != "" {
		return r
	}
	return hex.EncodeToString(executableSum())[:buildLength]
})

// executableSum identifies the running program by a hash of its executable. If the file cannot be
// read, every process counts as a different program, and each retries a blocked run once.
var executableSum = sync.OnceValue(func() []byte {
	h := sha256.New()
	path, err := os.Executable()
	if err == nil {
		var f *os.File
		if f, err = os.Open(path); err == nil {
			defer func() { _ = f.Close() }()
			_, err = io.Copy(h, f)
		}
	}
	if err != nil {
		t := event.NewToken()
		return t[:]
	}
	return h.Sum(nil)
})

// Fingerprint identifies the code of a worker, so that a run that one worker has blocked is retried
// by workers with other fingerprints. build is the name of the build from the configuration of the
// worker. If it is empty, the build is the Revision of the program, or otherwise a hash of the
// program. BuildOf returns the build.
func Fingerprint(r *Registry, build string) string {
	h := sha256.New()
	h.Write(executableSum())
	for _, line := range r.Code() {
		_, _ = io.WriteString(h, line+"\n")
	}
	sum := hex.EncodeToString(h.Sum(nil)[:12])
	if build != "" {
		return build + buildEnd + sum
	}
	if revision := Revision(); revision != "" {
		return revision + sum[:buildLength]
	}
	return sum
}

// WithKeys returns the fingerprint of a worker whose codec has the given keys, because a run that
// cannot be opened with them is retried by workers with other keys. The build remains the same.
// keys is empty if the worker has no codec.
func WithKeys(fingerprint, keys string) string {
	if keys == "" {
		return fingerprint
	}
	sum := sha256.Sum256([]byte(fingerprint + "\n" + keys))
	return BuildOf(fingerprint) + buildEnd + hex.EncodeToString(sum[:12])
}

// buildEnd separates the name of a build from the hash in a fingerprint. Names of builds and hashes
// do not contain it.
const buildEnd = "@"

// BuildOf returns the build of a worker with this fingerprint.
func BuildOf(fingerprint string) string {
	if build, _, named := strings.Cut(fingerprint, buildEnd); named {
		return build
	}
	return fingerprint[:min(len(fingerprint), buildLength)]
}
