package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:embed assets
var assetFiles embed.FS

// theAssets are the same for all handlers. They are compressed for the first of them, which takes 7 ms: a program that
// shows no console does not pay for it.
var theAssets = sync.OnceValue(readAssets)

// assets serves the files of assets under names that change with what is in them, so that browsers keep them for ever.
type assets struct {
	names map[string]string // of files, to hashed ones
	files map[string]asset  // by hashed names
}

type asset struct {
	kind        string
	text, short []byte // as it is, and by gzip
}

func readAssets() *assets {
	a := &assets{names: map[string]string{}, files: map[string]asset{}}
	all, err := fs.ReadDir(assetFiles, "assets")
	if err != nil {
		panic(err) // they are in the binary
	}
	for _, f := range all {
		text, err := fs.ReadFile(assetFiles, "assets/"+f.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(text)
		ext := path.Ext(f.Name())
		hashed := strings.TrimSuffix(f.Name(), ext) + "-" + hex.EncodeToString(sum[:6]) + ext
		var short bytes.Buffer
		z, _ := gzip.NewWriterLevel(&short, gzip.BestCompression) // a level that there is
		_, _ = z.Write(text)                                      // to memory
		_ = z.Close()
		a.names[f.Name()] = hashed
		a.files[hashed] = asset{kind: mime.TypeByExtension(ext), text: text, short: short.Bytes()}
	}
	return a
}

// hashed returns the name under which a file is served.
func (a *assets) hashed(name string) string {
	hashed, ok := a.names[name]
	if !ok {
		panic("console: there is no asset " + name)
	}
	return hashed
}

func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := a.files[strings.TrimPrefix(r.URL.Path, "/assets/")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	text := f.text
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		text = f.short
	}
	_, _ = w.Write(text) // a browser that has gone needs nothing
}
