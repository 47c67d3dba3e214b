package worker

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"sync"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/engine"
)

// executableSum identifies the running program by a hash of its executable. If the file cannot be
// read, each process counts as another program: each then retries a blocked run once.
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

// fingerprint identifies the code that a worker runs. A run that a worker has blocked is retried by
// workers with another fingerprint.
func fingerprint(r engine.Registry) string {
	h := sha256.New()
	h.Write(executableSum())
	for _, line := range r.Code() {
		_, _ = io.WriteString(h, line+"\n")
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}
