// Package images makes small images of a large one.
package images

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflow/graph"
)

// Image is an image in a store.
type Image struct {
	Path          string
	Width, Height int
}

//flow:step
func resize(ctx context.Context, image Image, width int) (Image, error) { return image, ctx.Err() }

//flow:step
func probe(ctx context.Context, path string) (Image, error) { return Image{Path: path}, ctx.Err() }

//flow:step
func index(ctx context.Context, images []Image) error { return ctx.Err() }

// publish builds a graph of what depends on what.
//
//flow:workflow
func publish(ctx workflow.Context, path string, widths []int) ([]Image, error) {
	g := graph.New()
	source := graph.AddNode(g, "probe", func(ctx workflow.Context) (Image, error) { return Probe(ctx, path) })
	var needs []graph.Dependency
	var small []*graph.Node[Image]
	for _, width := range widths {
		node := graph.AddNode(g, fmt.Sprint("width-", width), func(ctx workflow.Context) (Image, error) {
			return Resize(ctx, source.Value(), width)
		}, source)
		small, needs = append(small, node), append(needs, node)
	}
	list := graph.AddNode(g, "index", func(ctx workflow.Context) ([]Image, error) {
		images := make([]Image, len(small))
		for i, node := range small {
			images[i] = node.Value()
		}
		return images, Index(ctx, images)
	}, needs...)
	if err := g.Run(ctx); err != nil {
		return nil, err
	}
	return list.Value(), nil
}
