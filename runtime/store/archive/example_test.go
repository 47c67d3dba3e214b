package archive_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/archive"
)

// A truncated or changed file is refused. The error contains the number of the line.
func ExampleCheck() {
	var file bytes.Buffer
	w, err := archive.NewWriter(&file, archive.Head{Source: "memory"})
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	_, _, err = archive.Check(bytes.NewReader(file.Bytes()))
	fmt.Println(err)
	_, _, err = archive.Check(bytes.NewReader(file.Bytes()[:file.Len()/2]))
	fmt.Println(err)
	// Output:
	// <nil>
	// line 2 of the export: the file ends within it: it was cut off
}

// The example copies runs from one store to another in a file.
func ExampleImport() {
	ctx := context.Background()
	from, to := memstore.New(), memstore.New()
	defer from.Close()
	defer to.Close()

	var file bytes.Buffer
	w, err := archive.NewWriter(&file, archive.Head{Source: "memory", Exported: from.Clock().Now()})
	if err != nil {
		log.Fatal(err)
	}
	x := archive.NewExporter(from, w, nil)
	err = x.Run(ctx, event.NewRunID(from.Clock().Now(), 0))
	fmt.Println("no such run:", err != nil)
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	runs := 0
	err = archive.Import(ctx, bytes.NewReader(file.Bytes()), to, store.SessionID("example"), func(archive.Imported) { runs++ })
	fmt.Println("imported:", runs, err)
	// Output:
	// no such run: true
	// imported: 0 <nil>
}
