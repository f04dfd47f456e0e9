package model_test

import (
	"context"
	"fmt"
	"log"

	"github.com/thole-dev/thole/agent/model"
)

// A program asks a model, here a recorded one, which calls a tool of its own.
func Example() {
	m, err := model.ParseScript("weather", []byte(`turns:
  - prompt: What is the weather?
    steps:
      - text: I'll look.
        tool_calls: [{name: Weather, input: {city: Bergen}}]
      - expect: [rain]
        text: It rains.
`))
	if err != nil {
		log.Fatal(err)
	}
	type input struct {
		City string `json:"city" jsonschema:"description=In English"`
	}
	weather, read := model.NewTool[input]("Weather", "Tells the weather of a city.")

	req := model.Request{
		Tools:    []model.Tool{weather},
		Messages: []model.Message{{Role: model.User, Blocks: []model.Block{{Type: model.Text, Text: "What is the weather?"}}}},
	}
	for {
		resp, err := m.Generate(context.Background(), req, nil)
		if err != nil {
			log.Fatal(err)
		}
		var results []model.Block
		for _, b := range resp.Blocks {
			switch b.Type {
			case model.Text:
				fmt.Println(b.Text)
			case model.ToolCall:
				in, err := read(b.Input)
				if err != nil {
					log.Fatal(err)
				}
				results = append(results, model.Block{Type: model.ToolResult, ID: b.ID, Name: b.Name, Text: in.City + ": rain"})
			}
		}
		if results == nil {
			return
		}
		req.Messages = append(req.Messages,
			model.Message{Role: model.Assistant, Blocks: resp.Blocks}, model.Message{Role: model.User, Blocks: results})
	}
	// Output:
	// I'll look.
	// It rains.
}
