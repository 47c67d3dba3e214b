// Command pictures saves pages of a console as PNG files:
//
//	go run ./cmd/flowctl/uitest/pictures -at http://127.0.0.1:7171 -out docs/images runs=/runs failures=/failures
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/flowgen/flowgen/cmd/flowctl/uitest"
)

func main() {
	at := flag.String("at", "http://127.0.0.1:7171", "the console")
	out := flag.String("out", ".", "folder of the files")
	width := flag.Int64("width", 1440, "of the window, in pixels")
	height := flag.Int64("height", 900, "of the window, in pixels")
	theme := flag.String("theme", "light", "light or dark")
	whole := flag.Bool("whole", false, "the whole page, however long")
	flag.Parse()
	if err := draw(*at, *out, *width, *height, *theme, *whole, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// draw draws pages. Each element of pages has the form NAME=PATH.
func draw(at, out string, width, height int64, theme string, whole bool, pages []string) error {
	b, err := uitest.Open(context.Background())
	if err != nil {
		return err
	}
	defer b.Close()
	t, end, err := b.Tab(5 * time.Minute)
	if err != nil {
		return err
	}
	defer end()
	for _, page := range pages {
		name, path, _ := strings.Cut(page, "=")
		png, err := t.Picture(strings.TrimSuffix(at, "/")+"/"+strings.TrimPrefix(path, "/"), width, height, theme, whole)
		if err != nil {
			return fmt.Errorf("draw %s: %w", page, err)
		}
		if err := os.WriteFile(filepath.Join(out, name+".png"), png, 0o644); err != nil { //nolint:gosec // documentation is for everybody
			return err
		}
	}
	for _, s := range t.Complaints() {
		fmt.Fprintln(os.Stderr, "the browser says:", s)
	}
	return nil
}
