"""The dashboard without a screen: feed, model, filter language, actions and formatting; never imports Textual."""
