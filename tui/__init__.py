"""The command and the dashboard of Taskyard. Whatever decides anything lives in `engine`."""
