package codectest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/codec"
	"github.com/flowgen/flowgen/runtime/codec/codectest"
)

// memory is a store in memory. fault is the rule that it breaks, if any.
type memory struct {
	mu    *sync.Mutex
	blobs map[string]stored
	fault string
}

type stored struct {
	data []byte
	time time.Time
	torn bool // the next Get sees a part
}

func newMemory(fault string) *memory {
	return &memory{mu: new(sync.Mutex), blobs: map[string]stored{}, fault: fault}
}

func valid(name string) bool {
	prefix, hex, found := strings.Cut(name, "/")
	return found && prefix != "" && len(prefix) < 200 && !strings.ContainsAny(prefix, "\x00\\") && len(hex) == 64 && strings.Trim(prefix, ".") != ""
}

var errName = errors.New("the name is not valid")

// begin checks what all calls check, and locks the store.
func (m *memory) begin(ctx context.Context, names ...string) (unlock func(), err error) {
	if err := ctx.Err(); err != nil && m.fault != "context" {
		return nil, err
	}
	for _, name := range names {
		if !valid(name) && m.fault != "names" {
			return nil, errName
		}
	}
	m.mu.Lock()
	return m.mu.Unlock, nil
}

func (m *memory) Put(ctx context.Context, name string, data []byte) error {
	unlock, err := m.begin(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	if _, exists := m.blobs[name]; exists && m.fault == "again" {
		return errors.New("the blob exists")
	}
	if m.fault != "shared input" {
		data = slices.Clone(data)
	}
	if _, canceled := ctx.Deadline(); canceled && m.fault == "canceled" {
		m.blobs[name] = stored{data: data[:len(data)/2]}
		return context.DeadlineExceeded
	}
	m.blobs[name] = stored{data: data, time: time.Now(), torn: m.fault == "in place"}
	return nil
}

func (m *memory) Get(ctx context.Context, name string) ([]byte, error) {
	unlock, err := m.begin(ctx, name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	b, exists := m.blobs[name]
	switch {
	case !exists && m.fault == "not found":
		return nil, nil
	case !exists:
		return nil, codec.ErrBlobNotFound
	case b.torn:
		m.blobs[name] = stored{data: b.data, time: b.time}
		return b.data[:len(b.data)/2], nil
	case m.fault == "shared output":
		return b.data, nil
	case m.fault == "large" && len(b.data) > 1<<20:
		return b.data[:1<<20], nil
	}
	return slices.Clone(b.data), nil
}

func (m *memory) Delete(ctx context.Context, names ...string) error {
	unlock, err := m.begin(ctx, names...)
	if err != nil {
		return err
	}
	defer unlock()
	for i, name := range names {
		if _, exists := m.blobs[name]; !exists && m.fault == "delete missing" {
			return codec.ErrBlobNotFound
		}
		if m.fault == "thousand" && i >= 1000 {
			return nil
		}
		if m.fault != "delete" {
			delete(m.blobs, name)
		}
		if m.fault == "prefix" {
			clear(m.blobs)
		}
	}
	return nil
}

func (m *memory) List(ctx context.Context, prefix, after string, limit int) ([]codec.Blob, error) {
	unlock, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	var found []codec.Blob
	for name, b := range m.blobs {
		if m.fault == "directory" {
			prefix, _, _ = strings.Cut(prefix, "/")
		}
		inside := strings.HasPrefix(name, prefix)
		if inside && (name > after || m.fault == "inclusive" && name == after) {
			found = append(found, codec.Blob{Name: name, Size: int64(len(b.data)), Time: b.time})
		}
	}
	slices.SortFunc(found, func(a, b codec.Blob) int {
		switch m.fault {
		case "unsorted":
			return strings.Compare(b.Name, a.Name)
		case "directories":
			return slices.Compare(strings.Split(a.Name, "/"), strings.Split(b.Name, "/"))
		}
		return strings.Compare(a.Name, b.Name)
	})
	for i := range found {
		switch m.fault {
		case "size":
			found[i].Size = 0
		case "time":
			found[i].Time = time.Time{}
		}
	}
	if m.fault == "no limit" {
		return found, nil
	}
	return found[:min(len(found), limit)], nil
}

func TestOPS11_ConformanceAcceptsAStoreInMemory(t *testing.T) {
	m := newMemory("")
	codectest.Conformance(t, func(*testing.T) codec.BlobStore { return m })
	if len(m.blobs) != 0 {
		t.Errorf("the tests leave %d blobs", len(m.blobs))
	}
}

// faulty is the variable that makes TestFaulty test a store with a fault.
const faulty = "FLOWGEN_CODECTEST_FAULT"

// TestFaulty is executed by the test below, for which it must fail.
func TestFaulty(t *testing.T) {
	fault := os.Getenv(faulty)
	if fault == "" {
		t.Skip("executed by another test")
	}
	m := newMemory(fault)
	codectest.Conformance(t, func(*testing.T) codec.BlobStore {
		if fault == "handles" {
			return newMemory("")
		}
		return m
	})
}

func TestOPS11_ConformanceFindsFaults(t *testing.T) {
	for fault, behavior := range map[string]string{
		"large":          "Get returns what Put stored",
		"again":          "Put again keeps the blob",
		"handles":        "Another handle sees a blob after Put returns",
		"not found":      "Get of a missing blob is ErrBlobNotFound",
		"shared input":   "Data belongs to the caller",
		"shared output":  "Data belongs to the caller",
		"in place":       "Concurrent Puts and Gets see whole blobs",
		"canceled":       "A Put that is canceled stores all or nothing",
		"context":        "Calls with an ended context fail",
		"delete":         "Delete removes its names only",
		"prefix":         "Delete removes its names only",
		"delete missing": "Delete ignores missing blobs",
		"thousand":       "Delete removes more names than a page",
		"size":           "List describes blobs",
		"time":           "List describes blobs",
		"unsorted":       "List returns pages in the order of names",
		"inclusive":      "List returns pages in the order of names",
		"no limit":       "List returns pages in the order of names",
		"directories":    "List sorts the names of all prefixes by bytes",
		"directory":      "List finds what begins with the prefix",
		"names":          "Names that are not valid are refused",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFaulty$/^"+strings.ReplaceAll(behavior, " ", "_")+"$")
			cmd.Env = append(os.Environ(), faulty+"="+fault)
			output, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(output), "--- FAIL: TestFaulty/"+strings.ReplaceAll(behavior, " ", "_")) {
				t.Errorf("the behavior %q accepts a store with the fault %q:\n%s", behavior, fault, output)
			}
		})
	}
}
