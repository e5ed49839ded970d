"""The handlers of the reducer, by what they are about; `engine.state` puts them together."""
