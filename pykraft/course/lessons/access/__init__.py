"""Notebook 21: who may do what?"""
